"""Failures of Spark in our words, from errors that Py4J and PySpark raise themselves."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JError
from pyspark.errors import PythonException

from setpoint.errors import PermanentError
from setpoint.spark.failures import explain, jvm_ended, root_cause


@pytest.fixture
def dying_jvm() -> Iterator[JavaGateway]:
    """Py4J's side of a JVM that takes every call and ends before it answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def take_and_end() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1000)

        threading.Thread(target=take_and_end, daemon=True).start()
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=server.getsockname()[1]))
        yield gateway
        gateway.close()
        server.shutdown(socket.SHUT_RDWR)


def test_a_jvm_that_ends_under_a_call_is_told_apart(dying_jvm: JavaGateway) -> None:
    """Py4J has no Java exception then; what Java refuses does not look like it."""
    with pytest.raises(Py4JError) as called:
        dying_jvm.entry_point.alterPartitions()
    with pytest.raises(Py4JError) as looked_up:
        _ = dying_jvm.jvm.org
    for caught in (called, looked_up):
        assert jvm_ended(caught.value)
        assert "the JVM of Spark ended" in root_cause(caught.value)
    refused = Py4JError("An error occurred while calling o1.f. Trace:\npy4j.Py4JException: no f")
    assert not jvm_ended(refused)
    assert not jvm_ended(ValueError("An error occurred while calling o1.f"))


def test_the_cause_is_what_java_said_and_not_the_call() -> None:
    """Py4J's first line names a method; nobody can do anything with it."""
    text = (
        "An error occurred while calling o12.exists.\n: java.net.ConnectException: refused\n\tat x"
    )
    assert root_cause(RuntimeError(text)) == "ConnectException: refused"
    assert root_cause(RuntimeError(f"{text}\nCaused by: java.io.IOException: down")).endswith(
        "down"
    )
    assert root_cause(ValueError()) == "ValueError"


def test_the_cause_of_a_function_that_failed_in_a_worker_is_what_python_said() -> None:
    """PySpark's own first line says that there is a trace below, which nobody gets to see."""
    text = (
        "\n  An exception was thrown from the Python worker. Please see the stack trace below.\n"
        'Traceback (most recent call last):\n  File "worker.py", line 1, in main\n'
        "ModuleNotFoundError: No module named 'helping'\n"
    )
    assert root_cause(PythonException(text)) == "ModuleNotFoundError: No module named 'helping'"


def test_a_place_that_cannot_be_written_is_said_to_be_so() -> None:
    """Hadoop says only that it failed to make a folder."""
    told = explain(OSError("Mkdirs failed to create file:/ro/out/x (exists=false)"), "staging x")
    assert isinstance(told, PermanentError)
    assert "cannot be read or written" in told.what
    assert "read-only" in (told.why or "")
