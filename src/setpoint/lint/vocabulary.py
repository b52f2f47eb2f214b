"""Sets of words, written the way people read them."""

from __future__ import annotations


def vocabulary(*words: str) -> frozenset[str]:
    """The words of some texts, separated by spaces."""
    return frozenset(word for text in words for word in text.split())
