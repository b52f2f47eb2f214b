"""Other surroundings for a process: another day, time zone, locale, hash seed and environment.

A factor is one thing that is different. First everything is different at once, in one process;
only if that changes the rows is each factor tried alone, to name the one that matters.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from setpoint.lint.findings import Finding
from setpoint.prove.clock import Clock

_SOMEBODY = {"USER": "somebody-else", "LOGNAME": "somebody-else", "HOSTNAME": "another-machine"}
_ADDED = "ELSEWHERE"
_LOCALES = ("tr_TR.utf8", "de_DE.utf8", "fr_FR.utf8", "C", "C.utf8")
_JAVA_OPTIONS = "JDK_JAVA_OPTIONS"
_JAVA_LOCALE = "-Duser.language=tr -Duser.country=TR"
_FAR = (("Pacific/Kiritimati", "<+14>-14"), ("Pacific/Pago_Pago", "<-11>11"))


@dataclass(frozen=True)
class Factor:
    """One thing that is different around a process.

    `what` ends the sentence "the rows differ …": "3 days and 7 hours later".
    """

    name: str
    what: str
    changes: Mapping[str, str]
    joined: Mapping[str, str] = field(default_factory=dict)
    """Variables that hold several entries, with the sign between these: the new one comes first."""

    @property
    def of_variable(self) -> bool:
        """Whether it is one variable that the code reads; such a value may be needed as it is."""
        return self.name.startswith("variable ")


def factors(
    environment: Mapping[str, str], clock: Clock | None, variables: Iterable[str] = ()
) -> tuple[Factor, ...]:
    """What can be different from this environment; without a clock, all but the day.

    `variables` are those that the code reads: each that is set gets another value.
    """
    found = [_time_zone(environment), _locale(environment), _hash_seed(environment)]
    if clock is not None:
        found.insert(0, Factor("clock", clock.what, clock.changes, {"LD_PRELOAD": ":"}))
    found.append(
        Factor(
            "environment",
            "for another user, on a machine of another name",
            {**_SOMEBODY, _ADDED: "1"},
        )
    )
    known = {name for factor in found for name in factor.changes}
    found += [
        Factor(f"variable {name}", f"with another value of {name}", {name: _other(value)})
        for name in sorted(set(variables) - known)
        if (value := environment.get(name))
    ]
    return tuple(found)


def named_factor(factor: Factor) -> str:
    """A factor as a result names it: of the clock it has to be told how far it was moved."""
    return f"{factor.name} ({factor.what})" if factor.name == "clock" else factor.name


def clocks_in(lint: Iterable[Finding]) -> str:
    """Where lint sees a clock that becomes data or decides what is read; empty if nowhere.

    Not every such value changes within the few days by which the clock is moved.
    """
    found = [item for item in lint if item.kind in ("wall-clock", "relative-now-read")]
    return ", ".join(f"{Path(item.path).name}:{item.line}  {item.kind}" for item in found[:3])


def applied(environment: Mapping[str, str], different: Sequence[Factor]) -> dict[str, str]:
    """The environment with these factors in it."""
    result = dict(environment)
    for factor in different:
        for name, value in factor.changes.items():
            sign = factor.joined.get(name)
            before = result.get(name, "") if sign else ""
            result[name] = f"{value}{sign}{before}" if before else value
    return result


def _time_zone(environment: Mapping[str, str]) -> Factor:
    """A zone in which it is another hour, and for most of the day another date."""
    here = environment.get("TZ", "")
    name, rule = _FAR[1] if here in _FAR[0] else _FAR[0]
    # Images without the time zone database take an unknown name for UTC, without a word.
    known = any(Path(home, name).is_file() for home in ("/usr/share/zoneinfo", "/etc/zoneinfo"))
    return Factor("time zone", f"with TZ={name}", {"TZ": name if known else rule})


def _locale(environment: Mapping[str, str]) -> Factor:
    """Another locale of those that are installed, and Turkish for Java, which has all of them."""
    now = next((environment[n] for n in ("LC_ALL", "LC_CTYPE", "LANG") if environment.get(n)), "C")
    installed = _installed()
    other = next(
        (name for name in _LOCALES if _plain(name) in installed and _plain(name) != _plain(now)),
        "C" if _plain(now) != "c" else "POSIX",
    )
    return Factor(
        "locale",
        f"with LC_ALL={other}, and Turkish in Java",
        {"LC_ALL": other, _JAVA_OPTIONS: _JAVA_LOCALE},
        {_JAVA_OPTIONS: " "},
    )


def _installed() -> frozenset[str]:
    try:
        said = subprocess.run(["locale", "-a"], capture_output=True, text=True, check=False)
    except OSError:
        return frozenset({"c"})
    return frozenset(_plain(line) for line in said.stdout.split())


def _plain(name: str) -> str:
    return name.lower().replace("-", "")


def _hash_seed(environment: Mapping[str, str]) -> Factor:
    """Another seed for hash() of texts; without one, every process has a seed by chance."""
    seed = "4711" if environment.get("PYTHONHASHSEED") != "4711" else "4712"
    return Factor("hash seed", f"with PYTHONHASHSEED={seed}", {"PYTHONHASHSEED": seed})


def _other(value: str) -> str:
    """Another value of the same kind: code may take it for a number or for a switch."""
    switched = {"true": "false", "false": "true", "yes": "no", "no": "yes", "on": "off"}
    if value.lower() in switched:
        return switched[value.lower()]
    return str(int(value) + 1) if value.lstrip("-").isdigit() else f"{value}-elsewhere"
