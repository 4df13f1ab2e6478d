"""The time line of scalings as an SVG: deliveries above, waiting for acknowledgements below, phases shaded."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from benchmarks.scaling.measured import BIN_S, Measured
from benchmarks.scaling.story import Story

_WIDTH_MIN, _LEFT, _RIGHT = 960, 70, 20
_SECOND_MIN = 20  # so that the names of steps find room beside each other
_TOP, _PANEL, _BETWEEN = 74, 190, 58
_HEIGHT = _TOP + 2 * _PANEL + _BETWEEN + 50
COLOURS = {  # of the phases
    "asked": "#eceff1",
    "gathering": "#eceff1",
    "copying": "#e8f5e9",
    "moving": "#cfe8fc",
    "changing": "#ffcc80",
    "flushing": "#a5d6a7",
    "ending": "#d1c4e9",
}
_WORDS = {"gathering": "starting processes"}
_WAITS = "longest wait of a new subscription, ms"


class _Shaded(NamedTuple):
    label: str
    asked_s: float
    phase_s: dict[str, float]


class _Drawn(NamedTuple):
    """Times in seconds from the zero of the time line."""

    title: str
    legend: list[tuple[str, str]]  # phase, words
    shaded: list[_Shaded]
    begin_s: float
    bins: list[int]
    waits_s: list[tuple[float, float]]
    unit: str

    @property
    def end_s(self) -> float:
        return self.begin_s + len(self.bins) * BIN_S

    @property
    def width(self) -> int:
        return max(_WIDTH_MIN, round(_LEFT + _RIGHT + _SECOND_MIN * (self.end_s - self.begin_s)))

    def x(self, at_s: float) -> float:
        scale = (self.width - _LEFT - _RIGHT) / (self.end_s - self.begin_s)
        return round(_LEFT + (at_s - self.begin_s) * scale, 1)


def draw(measured: Measured) -> str:
    legend = [
        (phase, f"{_WORDS.get(phase, phase)} {took_s:.3f} s")
        for phase, took_s in measured.phase_s.items()
        if phase != "asked"
    ]
    return _draw(
        _Drawn(
            f"{measured.step} with {measured.subscriptions:,} subscriptions",
            legend,
            [_Shaded("", 0.0, measured.phase_s)],
            measured.bins_begin_s,
            measured.bins,
            measured.waits_s,
            "seconds since the scaling was asked for",
        )
    )


def draw_story(story: Story) -> str:
    return _draw(
        _Drawn(
            f"{len(story.steps)} steps with {story.subscriptions:,} subscriptions and {story.new_at_end:,} new ones",
            [(phase, _WORDS.get(phase, phase)) for phase in COLOURS if phase != "asked"],
            [
                _Shaded(f"{told.step}{'' if told.state == 'done' else f', {told.state}'}", told.asked_s, told.phase_s)
                for told in story.steps
            ],
            0.0,
            story.bins,
            story.waits_s,
            "seconds",
        )
    )


def _draw(drawn: _Drawn) -> str:
    lower = _TOP + _PANEL + _BETWEEN
    begin_s, bins, x = drawn.begin_s, drawn.bins, drawn.x
    waits = [(at_s, 1000 * wait_s) for at_s, wait_s in drawn.waits_s]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {drawn.width} {_HEIGHT}" '
        'font-family="sans-serif" font-size="12" fill="#263238">',
        f'<rect width="{drawn.width}" height="{_HEIGHT}" fill="#ffffff"/>',
        _text(_LEFT, 20, drawn.title, 'font-size="15"'),
        *_legend(drawn.legend),
        *_shades(drawn),
        *_axis(_TOP, max(bins, default=1), "deliveries per 50 ms", drawn.width),
        _line([(x(begin_s + n * BIN_S), count) for n, count in enumerate(bins[:-1])], _TOP, bins),
        *_axis(lower, max((wait for _, wait in waits), default=1.0), _WAITS, drawn.width),
        _line([(x(at_s), wait) for at_s, wait in waits], lower, [wait for _, wait in waits]),
        *_seconds(drawn, lower),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _legend(legend: list[tuple[str, str]]) -> list[str]:
    parts, at = [], _LEFT
    for phase, label in legend:
        parts.append(f'<rect x="{at}" y="34" width="14" height="14" fill="{COLOURS[phase]}" stroke="#90a4ae"/>')
        parts.append(_text(at + 20, 46, label))
        at += 34 + 6 * len(label)
    return parts


def _shades(drawn: _Drawn) -> list[str]:
    """Names stand between the panels, where no line crosses them, in two rows because steps may be short."""
    parts, labels = [], []  # those above everything that is shaded
    height = 2 * _PANEL + _BETWEEN
    for place, (label, asked_s, phase_s) in enumerate(drawn.shaded):
        begin, at_s = drawn.x(asked_s), asked_s
        for phase, took_s in phase_s.items():
            x = drawn.x(at_s)
            width = max(1.5, drawn.x(at_s + took_s) - x)  # so that a short one is seen at all
            parts.append(f'<rect x="{x}" y="{_TOP}" width="{width:.1f}" height="{height}" fill="{COLOURS[phase]}"/>')
            at_s += took_s
        anchor = 'text-anchor="end"' if begin > drawn.width - 180 else ""  # it would end outside
        labels.append(_text(begin, _TOP + _PANEL + 15 + 15 * (place % 2), label, anchor))
    return parts + labels


def _axis(top: int, highest: float, label: str, width: int) -> list[str]:
    parts = [_text(_LEFT, top - 6, label, 'fill="#546e7a"')]
    step = _round_step(highest)
    value = 0.0
    while value <= highest:
        y = _y(value, top, highest)
        parts.append(
            f'<line x1="{_LEFT}" y1="{y}" x2="{width - _RIGHT}" y2="{y}" stroke="#b0bec5" stroke-width="0.5"/>'
        )
        parts.append(_text(_LEFT - 6, y + 4, f"{value:,.0f}", 'text-anchor="end" fill="#546e7a"'))
        value += step
    return parts


def _seconds(drawn: _Drawn, top: int) -> list[str]:
    begin_s, end_s = drawn.begin_s, drawn.end_s
    step = max(1, round((end_s - begin_s) / 12))
    parts = [
        _text(drawn.x(second), top + _PANEL + 18, str(second), 'text-anchor="middle" fill="#546e7a"')
        for second in range(int(begin_s), int(end_s) + 1)
        if second % step == 0 and begin_s <= second <= end_s
    ]
    return [*parts, _text(drawn.width / 2, top + _PANEL + 38, drawn.unit, 'text-anchor="middle" fill="#546e7a"')]


def _line(points: list[tuple[float, float]], top: int, values: Sequence[float]) -> str:
    highest = max(values, default=1.0)
    path = " ".join(f"{at},{_y(value, top, highest)}" for at, value in points)
    return f'<polyline points="{path}" fill="none" stroke="#0d47a1" stroke-width="1.1"/>'


def _y(value: float, top: int, highest: float) -> float:
    return round(top + _PANEL * (1 - value / (highest or 1.0)), 1)


def _round_step(highest: float) -> float:
    step = 1.0
    while highest / step > 5:
        step *= 2.5 if str(step).startswith("2") else 2.0
    return step


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{x}" y="{y}" {more}>{escape(text)}</text>'
