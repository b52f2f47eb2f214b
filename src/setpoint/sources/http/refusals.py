"""What can go wrong with an API, in our words; none of them shows a secret or a query."""

from __future__ import annotations

from setpoint.errors import (
    NOTHING_STARTED,
    PermanentError,
    SetpointError,
    TransientError,
    UsageError,
)

NOTHING_LANDED = "Nothing was landed; the target is unchanged."


def no_answer(label: str, tries: int, last: str) -> SetpointError:
    """Every try failed for a reason that may pass."""
    return TransientError(
        "SP-H01",
        f"{label} did not answer as it should in {tries} tries; the last one: {last}.",
        why="A part of a listing is not the listing.",
        state=NOTHING_LANDED,
        next="Run again later; it is always safe.",
    )


def told_to_wait(label: str, seconds: float) -> SetpointError:
    """The API asks for more patience than a run has."""
    return TransientError(
        "SP-H01",
        f"{label} asks to be left alone for {seconds:,.0f} seconds.",
        why="Its limit of requests is used up.",
        state=NOTHING_LANDED,
        next="Run again after that, or ask less often: http(..., rate=...).",
    )


def unset(label: str, place: str, variable: str) -> SetpointError:
    """A secret is not in the environment."""
    return UsageError(
        "SP-H02",
        f"The {place} for {label} needs the variable {variable}, which is not set.",
        why="Secrets come from the environment and from nowhere else.",
        state=NOTHING_STARTED,
        next=f"Set it, then run again: export {variable}=...",
    )


def unfit_secret(label: str, header: str) -> SetpointError:
    """A secret cannot be sent as it is."""
    return UsageError(
        "SP-H02",
        f"The header {header} for {label} would hold a line break or a letter that headers cannot "
        "hold.",
        why="The variable behind it may end in a line break.",
        state=NOTHING_STARTED,
        next="Set the variable again, then run again.",
    )


def not_allowed(label: str, status: int, variables: str, said: str = "") -> SetpointError:
    """401 and 403."""
    named = f"what {variables} holds" if variables else "the credentials, none of which are named"
    return PermanentError(
        "SP-H02",
        f"{label} answered {status}{said}: it does not accept {named}.",
        why="It refuses the request as long as that stays so.",
        state=NOTHING_LANDED,
        next="Check the key and its rights, then run again.",
    )


def refused(label: str, status: int, said: str = "") -> SetpointError:
    """Another answer that a retry will meet again."""
    return PermanentError(
        "SP-H03",
        f"{label} answered {status}{said}.",
        why="It refuses the request as it is.",
        state=NOTHING_LANDED,
        next="Check the address and the parameters of http(...), then run again.",
    )


def redirected(label: str, why: str) -> SetpointError:
    """The API leads somewhere that is not followed."""
    return PermanentError(
        "SP-H03",
        f"{label} leads {why}.",
        why="Such a redirect is not followed.",
        state=NOTHING_LANDED,
        next="Write the final address into http(...), then run again.",
    )


def too_large(label: str, most: int) -> SetpointError:
    """An answer does not end, or is a trap."""
    return PermanentError(
        "SP-H09",
        f"{label} sent an answer of more than {most:,} bytes, unpacked.",
        why="An answer is held in memory as a whole, and one without an end would take all of it.",
        state=NOTHING_LANDED,
        next=f"Ask for smaller pages, or permit more: http(..., answer_bytes={most * 4}).",
    )


def too_slow(label: str, seconds: float, pages: int) -> SetpointError:
    """A listing does not end."""
    return PermanentError(
        "SP-H09",
        f"The listing of {label} is not complete after {seconds:g} seconds and {pages:,} answers.",
        why="A listing without an end would be read for ever.",
        state=NOTHING_LANDED,
        next="Check that its pages end; ask for shorter windows, or permit more: "
        f"http(..., listing_seconds={seconds * 4:g}).",
    )


def no_sum(label: str, what: str, next: str = "") -> SetpointError:
    """The pages together are not a listing."""
    return PermanentError(
        "SP-H04",
        f"The pages of {label} do not add up: {what}.",
        why="Items would be missing, or there twice, and nobody would see it.",
        state=NOTHING_LANDED,
        next=next or "Run again when the API is quiet; check pages= of http(...) if it comes back.",
    )
