"""Small windows are proven in a session for small work: a proof is dozens of short queries.

Compiling each of them costs more than interpreting it, and C1 alone is enough. A window of
millions of rows is proven under the settings that production has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from setpoint.errors import SetpointError
from setpoint.model.pipeline import Pipeline
from setpoint.model.secret import Secret, settings_of
from setpoint.model.table import Delta, Iceberg
from setpoint.model.window import Window
from setpoint.project.adapters import Adapters
from setpoint.project.config import Config

_ROWS = 1_000_000
_OPTIONS = "spark.driver.extraJavaOptions"
_SMALL = {
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    _OPTIONS: "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC",
}


def merged(conf: Mapping[str, Secret], settings: Mapping[str, str]) -> dict[str, Secret]:
    """Settings of a session with further ones; options of the JVM add up."""
    further = settings_of(settings)
    if _OPTIONS in conf and _OPTIONS in further:
        options = f"{conf[_OPTIONS].reveal()} {settings[_OPTIONS]}".strip()
        further[_OPTIONS] = Secret.setting(_OPTIONS, options)
    return {**conf, **further}


def small_settings(
    config: Config,
    pipeline: Pipeline,
    adapters: Adapters,
    window: Window,
    given: Collection[str] = (),
) -> dict[str, str]:
    """Settings of a session for little data; none if there is much, or if nobody can tell.

    Where the user has set one of them, all stay as they are. Inputs that a test has `given` are
    small.
    """
    local = not config.remote and (config.master or "local").startswith("local")
    if not local or _SMALL.keys() & config.conf.keys():
        return {}
    for name, source in pipeline.sources.items():
        origin = source.origin
        if source.before or name in given:
            continue
        if not isinstance(origin, (Delta, Iceberg)) or getattr(origin, "path", "") is None:
            return {}
        try:
            rows = adapters.source(name, source, pipeline).pin([window])[window].rows
        except SetpointError:
            return {}  # it is told when the inputs are pinned
        if rows is None or rows > _ROWS:
            return {}
    return dict(_SMALL)
