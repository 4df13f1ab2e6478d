"""The time line of one scaling as an SVG: deliveries above, waiting for acknowledgements below, phases shaded."""

from collections.abc import Callable, Sequence
from html import escape

from benchmarks.scaling.measured import BIN_S, Measured

_WIDTH, _LEFT, _RIGHT = 960, 70, 20
_TOP, _PANEL, _BETWEEN = 74, 190, 44
_HEIGHT = _TOP + 2 * _PANEL + _BETWEEN + 50
_COLOURS = {
    "asked": "#eceff1",
    "gathering": "#eceff1",
    "moving": "#cfe8fc",
    "changing": "#ffcc80",
    "flushing": "#a5d6a7",
    "ending": "#d1c4e9",
}
_WORDS = {"gathering": "starting processes"}


def draw(measured: Measured) -> str:
    begin_s = measured.bins_begin_s
    end_s = begin_s + len(measured.bins) * BIN_S
    scale = (_WIDTH - _LEFT - _RIGHT) / (end_s - begin_s)

    def x(at_s: float) -> float:
        return round(_LEFT + (at_s - begin_s) * scale, 1)

    lower = _TOP + _PANEL + _BETWEEN
    waits = [(at_s, 1000 * wait_s) for at_s, wait_s in measured.waits_s]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="12" fill="#263238">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        _text(_LEFT, 20, f"{measured.step} with {measured.subscriptions:,} subscriptions", 'font-size="15"'),
        *_legend(measured),
        *_shades(measured, x),
        *_axis(_TOP, max(measured.bins, default=1), "deliveries per 50 ms"),
        _line([(x(begin_s + n * BIN_S), count) for n, count in enumerate(measured.bins[:-1])], _TOP, measured.bins),
        *_axis(lower, max((wait for _, wait in waits), default=1.0), "longest wait of a new subscription, ms"),
        _line([(x(at_s), wait) for at_s, wait in waits], lower, [wait for _, wait in waits]),
        *_seconds(begin_s, end_s, lower, x),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _legend(measured: Measured) -> list[str]:
    parts, at = [], _LEFT
    for phase, took_s in measured.phase_s.items():
        if phase == "asked":
            continue
        label = f"{_WORDS.get(phase, phase)} {took_s:.3f} s"
        parts.append(f'<rect x="{at}" y="34" width="14" height="14" fill="{_COLOURS[phase]}" stroke="#90a4ae"/>')
        parts.append(_text(at + 20, 46, label))
        at += 36 + 7 * len(label)
    return parts


def _shades(measured: Measured, x: Callable[[float], float]) -> list[str]:
    parts, at_s = [], 0.0
    height = 2 * _PANEL + _BETWEEN
    for phase, took_s in measured.phase_s.items():
        width = max(1.5, x(at_s + took_s) - x(at_s))  # so that a short one is seen at all
        parts.append(f'<rect x="{x(at_s)}" y="{_TOP}" width="{width:.1f}" height="{height}" fill="{_COLOURS[phase]}"/>')
        at_s += took_s
    return parts


def _axis(top: int, highest: float, label: str) -> list[str]:
    parts = [_text(_LEFT, top - 6, label, 'fill="#546e7a"')]
    step = _round_step(highest)
    value = 0.0
    while value <= highest:
        y = _y(value, top, highest)
        parts.append(
            f'<line x1="{_LEFT}" y1="{y}" x2="{_WIDTH - _RIGHT}" y2="{y}" stroke="#b0bec5" stroke-width="0.5"/>'
        )
        parts.append(_text(_LEFT - 6, y + 4, f"{value:,.0f}", 'text-anchor="end" fill="#546e7a"'))
        value += step
    return parts


def _seconds(begin_s: float, end_s: float, top: int, x: Callable[[float], float]) -> list[str]:
    step = max(1, round((end_s - begin_s) / 12))
    parts = [
        _text(x(second), top + _PANEL + 18, str(second), 'text-anchor="middle" fill="#546e7a"')
        for second in range(int(begin_s), int(end_s) + 1)
        if second % step == 0 and begin_s <= second <= end_s
    ]
    label = "seconds since the scaling was asked for"
    return [*parts, _text(_WIDTH / 2, top + _PANEL + 38, label, 'text-anchor="middle" fill="#546e7a"')]


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
