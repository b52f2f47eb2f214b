"""Texts that nobody may see: one type for passwords, keys, and URLs that may hold them.

A `Secret` shows `***` wherever it is printed, formatted or logged, and can be neither pickled nor
turned into JSON. Whoever hands the text to a driver asks for it by name: `reveal()`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn
from urllib.parse import quote, quote_plus, unquote

from setpoint.errors import NOTHING_STARTED, DefinitionError, UsageError

HIDDEN = "***"
ENV = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)")
_REFERENCE = "env:"
_NAME = re.compile(
    r"pass|pwd|secret|token|credential|signature|\bsig\b|\bsas\b|jaas|cookie|auth(?!or(?!i))"
    r"|key(?:$|[._-]?base64)|account[._-]?key",
    re.IGNORECASE,
)
# Whatever a driver takes for the end of a value, the value up to there is a secret.
_ENDS = (r"[&;]", r"[&;,()]", r"[&;,()?#/\s]")
_PROPERTIES = tuple(
    re.compile(rf"([\w.\-%\[\]]+)=(\{{[^}}]*\}}|\"[^\"]*\"|'[^']*'|[^{end[1:-1]}]*)")
    for end in _ENDS
)
# As far as the last @: an unencoded one, like any other mark, may be part of the password.
_LOGINS = re.compile(r"//[^/:@?;\s]*:(\S+)@")
# Shorter than this, a secret is part of too many words to be found in texts about other things.
_LEAST = 4


class Secret:
    """A text that is used and never shown.

    `whole` says that the text itself is the secret; of others only the passwords are that a URL
    or a list of properties may hold. `place` is where a user has written it, for messages.
    """

    __slots__ = ("_environment", "_place", "_text", "_whole", "variable")

    def __init__(
        self,
        text: str,
        place: str = "",
        *,
        whole: bool = True,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        refers = text.startswith(_REFERENCE)
        self.variable = text.removeprefix(_REFERENCE) if refers else ""
        """The variable of the environment that holds it; empty when it was written down."""
        self._text = "" if refers else text
        self._place, self._whole = place, whole
        self._environment = os.environ if environment is None else environment

    @classmethod
    def of(cls, text: str | Secret, place: str = "", *, whole: bool = True) -> Secret:
        """A secret from a text that may be `env:NAME`; one that is a secret already stays."""
        return text if isinstance(text, Secret) else cls(text, place, whole=whole)

    @classmethod
    def setting(cls, name: str, text: str | Secret, place: str = "") -> Secret:
        """A setting: its name tells whether all of it is a secret, or what it may hold."""
        return cls.of(text, place or name, whole=is_secret(name))

    @property
    def is_set(self) -> bool:
        """Whether there is a text to reveal."""
        return bool(self._held())

    def reveal(self) -> str:
        """The text itself, for whoever has to send it; an error if its variable is not set."""
        text = self._held()
        if self.variable and not text:
            raise UsageError(
                "SP-C03",
                f"The environment variable {self.variable} is not set.",
                why=f"{self._place or 'The configuration'} takes its value from there.",
                state=NOTHING_STARTED,
                next=f"Set it where setpoint runs: export {self.variable}=...",
            )
        return text

    def parts(self) -> tuple[str, ...]:
        """Everything of it that must not be seen, in every spelling it may get into a text in."""
        text = self._held()
        found = set(passwords_in(text))
        if text and (found or self._whole or (self.variable and not _is_place(text))):
            found.add(text)
        spelled = {spelling for part in found for spelling in _spellings(part)}
        return tuple(sorted(spelled, key=len, reverse=True))

    def scrubbed(self, text: str) -> str:
        """A text without this secret."""
        return scrubbed(text, [self], least=1)

    def _held(self) -> str:
        return self._environment.get(self.variable, "") if self.variable else self._text

    def __bool__(self) -> bool:
        return bool(self.variable or self._text)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return (self.variable, self._text) == (other.variable, other._text)

    def __hash__(self) -> int:
        return hash((self.variable, self._text))

    def __repr__(self) -> str:
        return f"Secret({_REFERENCE}{self.variable})" if self.variable else f"Secret({HIDDEN})"

    def __str__(self) -> str:
        return HIDDEN

    def __format__(self, spec: str) -> str:
        return format(HIDDEN, spec)

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: Any) -> Secret:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret cannot be written down")


NOTHING = Secret("")


def is_secret(name: str) -> bool:
    """Whether the name of a setting, a parameter or an option says that it holds a secret."""
    return _NAME.search(name) is not None


def scrubbed(text: str, secrets: Iterable[Secret], *, least: int = _LEAST) -> str:
    """A text without any of the secrets."""
    parts = {part for secret in secrets for part in secret.parts() if len(part) >= least}
    for part in sorted(parts, key=len, reverse=True):
        text = text.replace(part, HIDDEN)
    return text


def revealed(settings: Mapping[str, str | Secret]) -> dict[str, str]:
    """Settings as a driver takes them."""
    return {
        name: value.reveal() if isinstance(value, Secret) else value
        for name, value in settings.items()
    }


def settings_of(settings: Mapping[str, str | Secret], place: str = "") -> dict[str, Secret]:
    """Settings by name, each a secret; a text may be `env:NAME`, which is looked up when needed."""
    return {
        name: Secret.setting(name, text, f"{place} {name}".strip())
        for name, text in settings.items()
    }


def passwords_in(text: str) -> Iterator[str]:
    """The passwords that a URL or a list of properties holds: of its login, and by their names."""
    yield from (found[1] for found in _LOGINS.finditer(text))
    # Oracle separates the password by a slash, and names its driver before the user.
    login, at, _ = re.split(r"[?;]", text, maxsplit=1)[0].rpartition("@")
    if at and "//" not in login:
        yield login.partition("/")[2]
    for pattern in _PROPERTIES:
        for name, value in pattern.findall(text):
            if is_secret(unquote(name)):
                yield value
                yield value.strip("{}\"'")


def refuse_url_for_name(name: str) -> None:
    """Refuse a URL with a password where the name of a connection belongs, without showing it."""
    if any(passwords_in(str(name))):
        raise DefinitionError(
            "SP-D01",
            "A URL stands where the name of a connection belongs.",
            why="It holds a password, and names are shown and recorded.",
            state=NOTHING_STARTED,
            next="Put the URL into [connections] of setpoint.toml, and write its name here.",
        )


def without_passwords(text: str) -> str:
    """A text without the passwords that it holds itself."""
    for part in sorted(filter(None, passwords_in(text)), key=len, reverse=True):
        text = text.replace(part, HIDDEN)
    return text


def _is_place(text: str) -> bool:
    """Whether a text is an address or a path, which messages name."""
    return "://" in text or text.startswith(("/", "./", "jdbc:"))


def _spellings(text: str) -> Iterator[str]:
    for spelling in (
        text,
        unquote(text),
        quote(text),
        quote(text, safe=""),
        quote_plus(text),
        json.dumps(text)[1:-1],
        json.dumps(text, ensure_ascii=False)[1:-1],
    ):
        if spelling.strip():
            yield spelling
