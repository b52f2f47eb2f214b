"""The manifest that lies beside the rows of a Parquet table."""

from __future__ import annotations

from setpoint.model.receipt import Receipt
from setpoint.targets.parquet.manifest import Entry, Manifest, carried, latest, newest_name


def receipt(window: str, generation: int, pipeline: str = "job") -> Receipt:
    return Receipt(
        pipeline=pipeline,
        window=window,
        timezone="UTC",
        every="day",
        run_key="k",
        generation=generation,
        attempt=f"{window}-{generation}",
        rows=1,
        contents=None,
        files=None,
        published_at="2026-04-25T00:00:00+00:00",
    )


def manifest(*entries: Entry) -> Manifest:
    return Manifest(7, entries, {"größe.parquet": 3}, 1, "db.t@1", 2, ("/a",), "u")


def test_a_manifest_reads_back_as_it_was_written() -> None:
    """Every member survives, names that are not ASCII included."""
    written = manifest(Entry(7, 5, receipt("2026-04-25", 1)))
    read = Manifest.from_text(written.as_text())
    assert read is not None
    assert read.as_text() == written.as_text()
    assert (read.files, read.absorbed, read.superseded, read.units) == (
        {"größe.parquet": 3},
        2,
        ("/a",),
        "u",
    )


def test_a_manifest_that_was_not_written_to_its_end_does_not_count() -> None:
    """Cut at any character it is no manifest: the one before it holds."""
    text = manifest(Entry(7, 7, receipt("2026-04-25", 1))).as_text()
    assert all(Manifest.from_text(text[:cut]) is None for cut in range(len(text)))
    assert Manifest.from_text('{"format": "another"}') is None


def test_the_latest_receipts_of_every_window_are_carried_forward() -> None:
    """Three of each window, whichever pipeline; a receipt found twice counts once."""
    entries = [Entry(n, n, receipt("2026-04-25", n)) for n in range(1, 6)]
    others = [Entry(3, 3, receipt("2026-04-26", 1)), Entry(2, 2, receipt("2026-04-25", 1, "two"))]
    kept = carried([*entries, *entries, *others])
    assert sorted((e.receipt.pipeline, e.receipt.window, e.commit) for e in kept) == [
        ("job", "2026-04-25", 3),
        ("job", "2026-04-25", 4),
        ("job", "2026-04-25", 5),
        ("job", "2026-04-26", 3),
        ("two", "2026-04-25", 2),
    ]
    assert {w: e.receipt.generation for w, e in latest(kept, "job").items()} == {
        "2026-04-25": 5,
        "2026-04-26": 1,
    }


def test_the_newest_manifest_is_found_by_its_number() -> None:
    """Only our names count, and only at the top of the folder."""
    names = [manifest().file_name, "_setpoint-000000000012.json", "_setpoint-1.json", "a/b.json"]
    assert newest_name(names) == ["_setpoint-000000000012.json", "_setpoint-000000000007.json"]
