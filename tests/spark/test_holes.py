"""The holes that other tools have, one test each: we are on the right side of them."""

from __future__ import annotations

import shutil
from contextlib import suppress
from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from setpoint import (
    DefinitionError,
    InsertNew,
    Merge,
    RefusedError,
    Replace,
    SetpointError,
    delta,
    row_count,
    source,
)
from setpoint.flow.status import status

DAY, NEXT = date(2026, 4, 25), date(2026, 4, 26)
ORDERS = "id int, status string, seq long"


def test_h1_rows_that_fail_their_audit_are_never_published(lab):
    """Others publish the audited rows first and raise afterwards."""
    lab.run(lab.job([(1, 1.0, DAY)]))
    with pytest.raises(RefusedError, match="SP-A01"):
        lab.run(lab.job([(2, 2.0, DAY)], audits=[row_count(min=5)]))
    assert lab.rows() == [(1, 1.0, DAY)]
    assert lab.version() == 0


def test_h2_an_empty_result_leaves_an_empty_slice(lab, shelf):
    """Others leave yesterday's wrong rows in place."""
    held = shelf([(1, 1.0, DAY)])
    job = lab.job(held)
    lab.run(job)
    lab.run(lab.job([(2, 2.0, NEXT)]), "2026-04-26")
    held.rows = []
    assert lab.run(job, force=True).receipt.rows == 0
    assert lab.rows() == [(2, 2.0, NEXT)]


def test_h3_a_table_partitioned_by_another_column_loses_no_other_day(lab):
    """Others replace the partitions that the new rows fall into, all days of them."""
    schema, target = "id int, region string, d date", delta("out", time="d")
    seed = [(1, "EU", DAY), (2, "US", DAY)]
    lab.spark.createDataFrame(seed[:0], schema).write.format("delta").partitionBy("region").save(
        str(lab.root / "out")
    )
    lab.run(lab.job(seed, schema, target=target))
    lab.run(lab.job([(3, "EU", NEXT)], schema, target=target), "2026-04-26")
    assert lab.rows() == [(1, "EU", DAY), (2, "US", DAY), (3, "EU", NEXT)]


def test_h4_a_failing_replace_leaves_the_table_as_it_was(lab):
    """Others truncate first and fill afterwards."""
    lab.run(lab.job([(1, "a", 1)], ORDERS, target=delta("out"), write=Replace()))

    def job(window: Any) -> Any:
        return lab.spark.sql("SELECT 2 AS id, raise_error('no') AS status, 1L AS seq")

    with pytest.raises(SetpointError):
        lab.run(lab.define(job, target=delta("out"), write=Replace()), "2026-04-26")
    assert lab.rows() == [(1, "a", 1)]


def test_h5_a_null_key_is_not_inserted_again_and_a_merge_needs_a_key(lab):
    """Others insert a null key on every run, and turn a merge without a key into an append."""
    write = Merge(key="id", sequence_by="seq", null_keys="allow")
    for window in ("2026-04-25", "2026-04-26", "2026-04-27"):
        lab.run(lab.job([(None, "x", 1)], ORDERS, target=delta("out"), write=write), window)
    assert lab.rows() == [(None, "x", 1)]
    for key in ((), "", ["id", "id"], None):
        with pytest.raises(DefinitionError, match="SP-D09"):
            Merge(key=key, sequence_by="seq")
    with pytest.raises(DefinitionError, match="SP-D09"):
        Merge(key="id", sequence_by=())


def test_h7_the_mark_is_never_apart_from_the_rows(lab):
    """Others save the mark in a file after the write, and skip rows that tie with it."""
    schema = pa.schema([("id", pa.int32()), ("at", pa.int64())])

    def arrive(*rows: tuple[int, int]) -> None:
        table = pa.Table.from_pylist([{"id": i, "at": a} for i, a in rows], schema)
        write_deltalake(str(lab.root / "lake"), table, mode="append")

    def job(window: Any, lake: Any = source(delta("lake"), cursor="at")) -> Any:
        return lake

    sync = lab.define(job, every="incremental", target=delta("out"), write=InsertNew(key="id"))
    arrive((1, 5))
    with suppress(SetpointError):
        lab.run(sync, "incremental", fault="committed:raise")
    shutil.rmtree(lab.root / ".setpoint", ignore_errors=True)
    arrive((2, 5), (3, 6))
    lab.run(sync, "incremental")
    assert [row[0] for row in lab.rows()] == [1, 2, 3]


def test_h8_a_failed_restatement_is_not_taken_for_done(lab):
    """Others keep data, audits and state apart, and say done when the data is not."""
    lab.run(lab.job([(1, 1.0, DAY)]))
    changed = lab.job([(1, 2.0, DAY)], audits=[row_count(min=5)])
    with pytest.raises(RefusedError):
        lab.run(changed)
    now = lab.world().now()
    found = {w.window.id: w.state for w in status(lab.bind(changed), lab.world(), now).windows}
    assert found["2026-04-25"] == "stale"
    shutil.rmtree(lab.root / ".setpoint", ignore_errors=True)
    assert lab.run(lab.job([(1, 1.0, DAY)])).state == "unchanged", "the target's receipt tells"
