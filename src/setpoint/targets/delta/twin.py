"""An empty Delta table that is like another one: its columns, partitions, features, properties."""

from __future__ import annotations

import json

from setpoint.model.fingerprint import digest
from setpoint.targets.delta.log import open_snapshot
from setpoint.targets.delta.storage import Storage

_FIRST = "_delta_log/00000000000000000000.json"


def make_twin(original: Storage, place: Storage) -> tuple[str, ...]:
    """Make the table at a place, in one commit without rows; what it lacks, in words.

    The first commit of a log says all that there is to say. It is written as it stands, so that
    features come along that no library here could switch on.
    """
    snapshot = open_snapshot(original)
    if snapshot is None:
        return ()
    protocol, configuration = snapshot.table.protocol(), dict(snapshot.configuration)
    notes = []
    for name in [name for name in configuration if "coordinatedCommits" in name]:
        del configuration[name]
        notes.append(f"the table property {name} is left out: its commits are files here")
    features = {
        "readerFeatures": protocol.reader_features,
        "writerFeatures": protocol.writer_features,
    }
    body = {
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
        **{name: sorted(known) for name, known in features.items() if known is not None},
    }
    actions = [
        {"protocol": body},
        {
            "metaData": {
                "id": _as_uuid(digest("twin", place.uri)),
                "format": {"provider": "parquet", "options": {}},
                "schemaString": snapshot.table.schema().to_json(),
                "partitionColumns": list(snapshot.partition_columns),
                "configuration": configuration,
                "createdTime": 0,
            }
        },
    ]
    with place.writer(_FIRST) as stream:
        stream.write("\n".join(json.dumps(action) for action in actions).encode())
    return tuple(notes)


def _as_uuid(text: str) -> str:
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:32]))
