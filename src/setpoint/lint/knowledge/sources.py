"""Where values come from that differ from run to run: clocks, entropy, the environment."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from setpoint.lint.interpret.call import Call, label_of
from setpoint.lint.values import Taint, TaintKind, Value
from setpoint.lint.vocabulary import vocabulary

if TYPE_CHECKING:
    from setpoint.lint.interpret.machine import Machine

_CLOCK = re.compile(
    r"(?:^|\.)(?:datetime|dt|date|Timestamp|DateTime|pendulum|arrow|timezone)\.(?:now|utcnow|today)$"
    r"|^time\.(?:time|time_ns|localtime|gmtime|strftime|ctime|asctime)$"
    r"|^airflow\.utils\.timezone\.utcnow$|^pendulum\.(?:now|today|yesterday|tomorrow)$"
    r"|(?:^|\.)utcnow$"
)
_YESTERDAY = re.compile(r"(?:^|\.)days_ago$")
_SPARK_CLOCK = vocabulary(
    "current_timestamp current_date localtimestamp unix_timestamp now curdate",
)
_UUID = re.compile(r"(?:^|\.)(?:uuid[14]|ulid|nanoid|shortuuid\.uuid|uuid\.uuid[14]|ObjectId)$")
_RANDOM = re.compile(
    r"^random\.(?!seed|Random|SystemRandom|getstate|setstate)\w+$|^(?:np|numpy)\.random\.(?!seed|default_rng|RandomState)\w+$"
    r"|^secrets\.\w+$|^os\.urandom$"
)
_SEED = re.compile(
    r"^random\.seed$|^(?:np|numpy)\.random\.(?:seed|default_rng|RandomState)$|Faker\.seed|\.seed_instance$|^random\.Random$"
)
_SPARK_RANDOM = frozenset(["rand", "randn", "uuid"])
_ENV = re.compile(
    r"^os\.(?:getenv|environ\.get|environ\.setdefault|getlogin|getpid)$|^socket\.(?:gethostname|getfqdn)$|^platform\.node$|^getpass\.getuser$"
)
_OUTSIDE = re.compile(
    r"widgets\.get(?:Argument)?$|^sys\.argv$|getResolvedOptions$|Variable\.get$|parse_args$|parse_known_args$"
)
_SPARK_MODULES = (
    "pyspark.",
    "F.",
    "f.",
    "fn.",
    "sf.",
    "sparkfunc.",
    "func.",
    "functions.",
    "psf.",
    "sqlf.",
)


def model(machine: Machine, call: Call) -> Value | None:
    """A value whose taint matters."""
    ref, name = call.ref, call.name
    if not ref:
        return None
    if _CLOCK.search(ref):
        if name == "strftime" and (len(call.args) > 1 or "datetime" in ref):
            return None
        if name in ("localtime", "gmtime", "ctime") and call.args:
            return None
        return _taint(machine, call, "clock")
    if _YESTERDAY.search(ref):
        return _taint(machine, call, "clock")
    first = call.args[0].text if call.args else None
    if name in ("to_datetime", "Timestamp", "datetime64") and first in ("now", "today"):
        return _taint(machine, call, "clock")
    if _spark_function(ref, name):
        if name in _SPARK_CLOCK and not call.args:
            return _taint(machine, call, "clock")
        if name == "monotonically_increasing_id":
            return _taint(machine, call, "mono")
        if name in _SPARK_RANDOM and not call.args and "seed" not in call.kwargs:
            return _taint(machine, call, "random") if "." in ref else None
    if _SEED.search(ref):
        if call.args or call.kwargs:
            machine.program.seeded = True
        return Value(ref=ref)
    if _UUID.search(ref) and not (name == "ObjectId" and call.args):
        return _taint(machine, call, "random")
    if _RANDOM.search(ref):
        return _taint(machine, call, "random").tainted(call.taints())
    if _ENV.search(ref):
        return _taint(machine, call, "env")
    if _OUTSIDE.search(ref):
        return _taint(machine, call, "outside")
    return None


def _spark_function(ref: str, name: str) -> bool:
    """A function of pyspark: imported, aliased, or a bare name that only pyspark has."""
    return ref.startswith(_SPARK_MODULES) or ref == name


def _taint(machine: Machine, call: Call, kind: TaintKind) -> Value:
    label = f"{label_of(call.node.func)}({'...' if call.args or call.kwargs else ''})"
    return Value(taints=frozenset({Taint(kind, call.place, label)}), label="", ref=f"{call.ref}()")
