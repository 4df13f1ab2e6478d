"""Pieces of a page."""

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any

CSS = """
:root { color-scheme: light; }
body { font: 15px/1.55 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1.2rem; color: #263238; }
h1, h2 { line-height: 1.2; } h1 { margin-bottom: .3rem; }
h2 { margin-top: 2.6rem; border-bottom: 1px solid #cfd8dc; padding-bottom: .25rem; }
p.about { color: #546e7a; margin-top: 0; } li { margin: .25rem 0; }
.short { background: #f4f7f8; border-radius: 6px; padding: .6rem 1rem .7rem; } .short ul { margin: .3rem 0; }
.tables { overflow-x: auto; } table { border-collapse: collapse; margin: 1rem 0; font-size: 13px; }
td, th { padding: .22rem .75rem; text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
th { border-bottom: 1px solid #b0bec5; font-weight: 600; } td:first-child, th:first-child { text-align: left; }
tr:nth-child(even) td { background: #f6f8f9; }
figure { margin: 1rem 0; } figcaption { color: #546e7a; font-size: 13px; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(24rem, 1fr)); gap: 0 1.5rem; }
svg { max-width: 100%; height: auto; } .model { border-left: 4px solid #ffb300; padding-left: 1rem; }
.faster { color: #2e7d32; } .slower { color: #b3394d; }
"""

Column = tuple[str, Callable[[Any], str]]


def document(title: str, parts: Iterable[str]) -> str:
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{CSS}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def heading(text: str) -> str:
    return f"<h2>{escape(text)}</h2>"


def paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def listed(sentences: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences) + "</ul>" if sentences else ""


def picture(svg: str, caption: str) -> str:
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def pair(pictures: Iterable[str]) -> str:
    """Side by side where there is room."""
    return f"<div class=pair>{''.join(pictures)}</div>"


def table(rows: Sequence[Any], columns: Sequence[Column], classes: Callable[[Any], str] = lambda _row: "") -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name, _ in columns)
    body = "".join(
        f'<tr class="{classes(row)}">' + "".join(f"<td>{escape(shown(row))}</td>" for _, shown in columns) + "</tr>"
        for row in rows
    )
    return f"<div class=tables><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def number(value: float | None, digits: int = 0) -> str:
    return "" if value is None else f"{value:,.{digits}f}"
