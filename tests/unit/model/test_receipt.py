"""Receipts survive the log, and foreign commits are not mistaken for them."""

from __future__ import annotations

import json

import pytest

from setpoint.model.receipt import Receipt, SliceState, seal, unseal

RECEIPT = Receipt(
    pipeline="job",
    window="2026-04-25",
    timezone="UTC",
    every="day",
    run_key="k",
    generation=3,
    attempt="a",
    rows=7,
    contents="1:7:a:b",
    files="f",
    published_at="2026-04-26T00:00:00+00:00",
    inputs={"orders": {"version": 4, "fingerprint": "x"}},
    parameters={"factor": "2", "text": "ä\n\"'"},
)


def test_a_receipt_comes_back_as_it_was_sealed() -> None:
    """Nothing of a receipt is lost in the commit's text."""
    (back,) = unseal(seal([RECEIPT]))
    assert back.as_dict() == RECEIPT.as_dict()


def test_several_receipts_share_a_commit() -> None:
    """One commit may publish several windows."""
    assert len(unseal(seal([RECEIPT, RECEIPT]))) == 2


@pytest.mark.parametrize(
    "text",
    [
        None,
        7,
        "",
        "a note of somebody else",
        '{"format": "setpoint.receipts"}',
        '{"format": "other", "receipts": [], "x": "setpoint.receipts"}',
        '{"setpoint.receipts": ',
        '["setpoint.receipts"]',
        '{"format": "setpoint.receipts", "receipts": [{"pipeline": "job"}]}',
        '{"format": "setpoint.receipts", "receipts": 5}',
    ],
)
def test_what_is_not_a_receipt_is_none(text: object) -> None:
    """Somebody else's user metadata, or half of ours, is no receipt and no error."""
    assert unseal(text) == ()


def test_members_of_a_newer_version_are_ignored() -> None:
    """An old setpoint can read what a new one wrote."""
    body = json.loads(seal([RECEIPT]))
    body["receipts"][0]["invented_later"] = 1
    (back,) = unseal(json.dumps(body))
    assert back.as_dict() == RECEIPT.as_dict()


def test_the_text_is_the_same_for_the_same_receipt() -> None:
    """Sealing is deterministic."""
    assert seal([RECEIPT]) == seal([Receipt.from_dict(RECEIPT.as_dict())])


def test_a_window_is_published_once_it_has_a_generation() -> None:
    """Generation 0 means never; a lost receipt does not unpublish."""
    assert not SliceState(0, None, None).published
    assert SliceState(2, None, None).published
