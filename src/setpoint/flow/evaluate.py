"""Calling the user's function, and telling its mistakes in the user's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from setpoint.errors import PermanentError, RefusedError, SetpointError, place_in, words_of
from setpoint.model.moment import during
from setpoint.model.run import Statement
from setpoint.model.span import Span, Stretch
from setpoint.model.window import Window
from setpoint.spark.carried import carry_code
from setpoint.spark.workers import told_by_task

_OURS = "__setpoint_"


def evaluate(run: Statement, inputs: Mapping[str, Any]) -> Any:
    """The frame that the pipeline's function returns for the window, or for a span of them."""
    stretch: Stretch = run.window
    if run.pipeline.spans and isinstance(stretch, Window):
        stretch = Span((stretch,))
    carry_code(run.pipeline.function)
    try:
        with during(stretch):
            frame = run.pipeline.function(stretch, **inputs, **run.parameters)
    except SetpointError:
        raise
    except (Exception, SystemExit) as error:
        if (told := told_by_task(error)) is not None:
            raise told from error  # the function looked at its input, which could not be read
        place = place_in(run.pipeline.file, error)
        raise PermanentError(
            "SP-S05",
            f"The code of {run.label} failed{place}: {words_of(error)}",
            why="Without its result there is nothing to publish.",
            next="Correct the pipeline, then run again; it is always safe.",
        ) from error
    if not (hasattr(frame, "schema") and hasattr(frame, "sparkSession")):
        raise RefusedError(
            "SP-O01",
            f"{run.pipeline.name} returned {type(frame).__name__}, not a DataFrame.",
            why="What a pipeline returns is what its window will hold.",
            next="Return a DataFrame; an empty one leaves an empty slice.",
        )
    ours = [name for name in frame.schema.names if name.lower().startswith(_OURS)]
    if ours:
        raise RefusedError(
            "SP-O05",
            f"{run.pipeline.name} returned a column named {ours[0]}.",
            why=f"Names that start with {_OURS} are setpoint's own while rows are staged.",
            next="Rename the column.",
        )
    return frame
