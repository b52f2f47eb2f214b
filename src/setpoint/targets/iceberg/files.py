"""Staged Parquet files as Iceberg's data files: partition, counts and bounds from the footers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from setpoint.targets.iceberg.partitions import Layout
from setpoint.targets.iceberg.storage import Storage
from setpoint.targets.storage import StoredFile, footer_of

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table.metadata import TableMetadata


class StagedFile:
    """A staged file with its footer; what it says can only be written once the table is known."""

    def __init__(self, file: StoredFile, footer: Any, partition: Sequence[Any]) -> None:
        self.path, self.size = file.path, file.size
        self.footer = footer
        self.partition = tuple(partition)

    @property
    def rows(self) -> int:
        return int(self.footer.num_rows)

    @property
    def ids(self) -> dict[str, int]:
        """The ids of the top-level columns, as far as the file has any."""
        found = {}
        for field in self.footer.schema.to_arrow_schema():
            number = (field.metadata or {}).get(b"PARQUET:field_id")
            if number is not None:
                found[field.name] = int(number)
        return found

    def as_data_file(self, storage: Storage, metadata: TableMetadata) -> DataFile:
        """The file as a manifest describes it."""
        from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
        from pyiceberg.typedef import Record

        file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=storage.path(self.path),
            file_format=FileFormat.PARQUET,
            partition=Record(*self.partition),
            file_size_in_bytes=self.size,
            sort_order_id=None,
            equality_ids=None,
            key_metadata=None,
            **_statistics(self.footer, metadata),
        )
        file.spec_id = metadata.default_spec_id
        return file


def staged_files(
    storage: Storage, folder: str, layout: Layout, known: Mapping[int, Any]
) -> tuple[StagedFile, ...]:
    """The Parquet files below a folder that hold rows."""
    found = []
    for file in storage.files(folder):
        if not file.holds_rows:
            continue
        with storage.open(file.path) as handle:
            footer = footer_of(handle, file.path)
        if footer.num_rows:
            inner = file.path[len(folder) + 1 :]
            found.append(StagedFile(file, footer, layout.values(inner, known)))
    return tuple(found)


def _statistics(footer: Any, metadata: TableMetadata) -> dict[str, Any]:
    from pyiceberg.io.pyarrow import (
        MetricModeTypes,
        MetricsMode,
        StatisticsCollector,
        compute_statistics_plan,
        data_file_statistics_from_parquet_metadata,
        parquet_path_to_id_mapping,
    )

    schema = metadata.schema()
    plan = compute_statistics_plan(schema, metadata.properties)
    mapping = parquet_path_to_id_mapping(schema)
    try:
        found = data_file_statistics_from_parquet_metadata(footer, plan, mapping)
        return found.to_serialized_dict()
    except (ValueError, TypeError, OverflowError, ArithmeticError):
        # A value that Python cannot hold (a date after 9999): counts without bounds. No bounds
        # are better than wrong ones, because readers skip files by them.
        counts = MetricsMode(MetricModeTypes.COUNTS)
        plain = {
            number: StatisticsCollector(
                field_id=number,
                iceberg_type=item.iceberg_type,
                mode=counts,
                column_name=item.column_name,
            )
            for number, item in plan.items()
        }
        found = data_file_statistics_from_parquet_metadata(footer, plain, mapping)
        return found.to_serialized_dict()
