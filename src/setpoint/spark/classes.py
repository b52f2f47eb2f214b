"""Classes of the driver's JVM.

Py4J asks for `jvm.org.apache…` part by part, and for a name without a package in each package that
PySpark imports as a whole. Each time the JVM looks for a class through all jars, in vain but for
the last time: a millisecond or two, for every use of the class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark.sql import SparkSession

SESSION = "org.apache.spark.sql.classic.SparkSession"
# What PySpark itself asks for without its package, again and again.
_SHORT = (
    "org.apache.spark.api.python.PythonUtils",
    "org.apache.spark.sql.api.python.PythonSQLUtils",
)


def java_class(session: SparkSession, name: str) -> Any:
    """A class by its whole name, in one question."""
    return getattr(session._jvm, name)


def know_short_names(gateway: JavaGateway) -> None:
    """Tell a new JVM where the classes are that PySpark asks for without their package."""
    from py4j.java_gateway import java_import

    for name in _SHORT:
        java_import(gateway.jvm, name)
