"""Python that this interpreter cannot parse as a whole."""

from __future__ import annotations

import ast

from setpoint.lint.parsing import parse


def test_quotes_inside_an_f_string_of_the_same_kind_are_read():
    """Newer grammar, older interpreter: nothing is lost, and the columns stay."""
    line = """run(f"INSERT INTO t VALUES ('{row["day"]}', {row['a']})")"""
    tree, lost = parse(f"def main(row):\n    {line}\n    x = 1\n")
    assert lost == ()
    (function,) = tree.body
    call = function.body[0].value
    assert (call.lineno, call.col_offset, call.end_col_offset) == (2, 4, 4 + len(line))
    assert len(function.body) == 2


def test_a_line_that_nothing_reads_is_left_out_alone():
    tree, lost = parse("a = 1\nif a\n    b = 2\nc = 3\n")
    assert 2 in lost
    assert "c = 3" in ast.unparse(tree)
