"""A few cases of the gallery for real, through the functions of `make proof-gallery`; no JVM."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

GALLERY = Path(__file__).parents[2] / "gallery"
CHOSEN = ("broken/append", "broken/mark_before_load", "correct/uuid5_key")


def test_the_gallery_tells_broken_from_correct(monkeypatch: pytest.MonkeyPatch) -> None:
    """An append, a mark that is saved too early, and a key that only looks drawn."""
    monkeypatch.syspath_prepend(str(GALLERY))
    monkeypatch.setenv("SHOP", "")
    before = set(sys.modules)
    from cases import cases
    from run import summary
    from workshop import workshop

    chosen = [case for case in cases() if case.label.endswith(CHOSEN)]
    with workshop() as place:
        judgements = [place.try_case(case) for case in chosen]
    assert [judgement.wrong for judgement in judgements] == ["", "", ""]
    assert [judgement.proven for judgement in judgements] == [False, False, True]
    assert summary(judgements) == "caught 2/2, passed 1/1"
    for name in set(sys.modules) - before:
        if str(GALLERY) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
