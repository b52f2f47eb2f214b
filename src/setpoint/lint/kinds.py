"""The kinds of findings and their codes; `docs/lint/` has a page for each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A kind of violation: a stable code, a name, and what it is in one line."""

    code: str
    name: str
    title: str


KINDS: tuple[Kind, ...] = (
    Kind("SP101", "wall-clock", "a clock value becomes data, a key, a partition or a path"),
    Kind("SP102", "random-id", "a random value becomes data, a key or a path"),
    Kind("SP103", "unstable-order-key", "a row's number depends on an order nobody fixed"),
    Kind("SP104", "append-write", "a write that adds its rows again when it is repeated"),
    Kind("SP105", "static-overwrite", "a window's job replaces every partition of its target"),
    Kind(
        "SP106", "non-atomic-delete-insert", "old rows go in one commit, new ones come in another"
    ),
    Kind("SP107", "split-state", "the high-water mark is saved apart from the data"),
    Kind("SP108", "unguarded-effect", "a message or call that every repetition sends again"),
    Kind("SP109", "serial-key", "a key drawn from a counter differs in every run"),
    Kind("SP110", "do-nothing", "a conflict keeps the old row although the new one may differ"),
    Kind("SP111", "unbounded-read", "a read with a lower bound and no upper one"),
    Kind("SP112", "relative-now-read", "what is read depends on the day of the run"),
    Kind("SP113", "unordered-pick", "some row is taken, and no order says which"),
    Kind("SP114", "grain-mismatch", "the schedule and the slice that is replaced differ in grain"),
    Kind("SP115", "retry-around-append", "retries repeat a write that adds rows each time"),
    Kind("SP116", "env-drift", "an environment value becomes data"),
)
BY_CODE: dict[str, Kind] = {kind.code: kind for kind in KINDS}
BY_NAME: dict[str, Kind] = {kind.name: kind for kind in KINDS}

# About the audit itself, not about the pipeline; they cannot be suppressed.
UNUSED_SUPPRESSION = "SP190"
BARE_SUPPRESSION = "SP191"
UNREADABLE = "SP192"
META: dict[str, str] = {
    UNUSED_SUPPRESSION: "unused-suppression",
    BARE_SUPPRESSION: "suppression-without-reason",
    UNREADABLE: "unreadable-part",
}
