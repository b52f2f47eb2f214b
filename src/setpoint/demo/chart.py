"""The picture: rows in the table after each event, for both copies, as inline SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from setpoint.demo.figures import Figures, Moment, last
from setpoint.demo.lake import ORDERS

_EVENTS = ("before", "first run", "retry", "again", "again", "again")
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 26, 20, 40
_NARROW = 500


@dataclass(frozen=True)
class _Frame:
    width: int
    height: int
    most: int

    def x(self, event: float) -> float:
        return _LEFT + (self.width - _LEFT - _RIGHT) * event / (len(_EVENTS) - 1)

    def y(self, rows: float) -> float:
        return self.height - _BOTTOM - (self.height - _TOP - _BOTTOM) * rows / self.most


def chart(figures: Figures, *, width: int, height: int) -> str:
    """Both timelines on one scale, with the expected rows as a line."""
    most = max(m.rows for m in (*figures.append, *figures.setpoint))
    frame = _Frame(width, height, (most // 100_000 + 1) * 100_000)
    title = (
        f"Rows of the day after each event: append ends at {last(figures.append):,}, "
        f"setpoint at {last(figures.setpoint):,}, expected are {ORDERS:,}."
    )
    parts = [
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">',
        *_grid(frame),
        *_series(frame, "append", _placed(figures.append)),
        *_series(frame, "setpoint", _placed(figures.setpoint)),
        *_labels(frame, figures),
        "</svg>",
    ]
    return "\n".join(parts)


def _placed(moments: Sequence[Moment]) -> list[tuple[float, Moment]]:
    """Each moment at its event; the batches of a run lie between two events."""
    placed: list[tuple[float, Moment]] = []
    waiting: list[Moment] = []
    event = -1
    for moment in moments:
        if moment.kind == "batch":
            waiting.append(moment)
            continue
        steps = len(waiting) + 1
        placed += [(event + (i + 1) / steps, batch) for i, batch in enumerate(waiting)]
        event, waiting = event + 1, []
        placed.append((event, moment))
    return placed


def _grid(frame: _Frame) -> list[str]:
    parts = []
    for rows in range(0, frame.most + 1, 100_000):
        y = frame.y(rows)
        kind = "axis" if rows == 0 else "grid"
        parts.append(
            f'<line class="{kind}" x1="{_LEFT}" x2="{frame.width - _RIGHT}" '
            f'y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="tick" x="{_LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">{rows:,}</text>'
        )
    for number, name in enumerate(_EVENTS):
        x, y = frame.x(number), frame.height - _BOTTOM + 24
        parts.append(f'<text class="tick" x="{x:.1f}" y="{y}" text-anchor="middle">{name}</text>')
    y = frame.y(ORDERS)
    parts.append(
        f'<line class="expected" x1="{_LEFT}" x2="{frame.width - _RIGHT}" '
        f'y1="{y:.1f}" y2="{y:.1f}"/>'
    )
    return parts


def _series(frame: _Frame, name: str, placed: Sequence[tuple[float, Moment]]) -> list[str]:
    first_x, first = placed[0]
    path = [f"M{frame.x(first_x):.1f} {frame.y(first.rows):.1f}"]
    for event, moment in placed[1:]:
        path.append(f"H{frame.x(event):.1f}V{frame.y(moment.rows):.1f}")
    marks = []
    for event, moment in placed:
        x, y = frame.x(event), frame.y(moment.rows)
        if moment.kind == "killed":
            marks.append(
                f'<path class="cross {name}" d="M{x - 5:.1f} {y - 5:.1f}l10 10m0 -10l-10 10"/>'
            )
        elif moment.kind != "batch":
            marks.append(f'<circle class="dot {name}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>')
    return [f'<path class="line {name}" d="{"".join(path)}"/>', *marks]


def _labels(frame: _Frame, figures: Figures) -> list[str]:
    parts = []
    killed = next(moment.rows for moment in figures.append if moment.kind == "killed")
    staged = next(moment.rows for moment in figures.setpoint if moment.kind == "killed")
    end, kept = last(figures.append), last(figures.setpoint)
    narrow = frame.width < _NARROW
    notes = (
        ("append", 1.0, killed, -12, f"{killed:,}" if narrow else f"killed at {killed:,}", "end"),
        ("append", 2.0, end, 4, f"append: {end:,}", "start"),
        ("setpoint", 1.0, staged, -12, "killed" if narrow else f"killed at {staged:,}", "start"),
        ("setpoint", 5.0, kept, 24, f"setpoint: {kept:,}", "end"),
        ("tick", 5.0, ORDERS, -12, f"expected: {ORDERS:,}", "end"),
    )
    for name, event, rows, down, text, anchor in notes:
        x = frame.x(event) + {"start": 12, "end": -6}[anchor]
        parts.append(
            f'<text class="note {name}" x="{x:.1f}" y="{frame.y(rows) + down:.1f}" '
            f'text-anchor="{anchor}">{escape(text)}</text>'
        )
    return parts
