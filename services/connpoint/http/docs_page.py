"""`/docs`: every call on one page that needs nothing from elsewhere, so that it also works without a network."""

import html
import json
from typing import Any

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1c2733}
h2{margin-top:2.5rem;border-bottom:1px solid #d5dde5;text-transform:capitalize}
h3{margin-bottom:.2rem;font-weight:600}code,pre{font:13px/1.45 ui-monospace,monospace}
pre{background:#f4f6f8;padding:.8rem;overflow:auto;border-radius:4px}
.method{display:inline-block;min-width:4rem;color:#0b5cad;font-weight:700}
table{border-collapse:collapse}td{padding:.1rem 1rem .1rem 0;vertical-align:top}.quiet{color:#5c6b7a}
@media(prefers-color-scheme:dark){body{background:#14191f;color:#dde4ea}pre{background:#1e262e}
.method{color:#7cb8f2}h2{border-color:#33404d}}
"""


def render_docs(description: dict[str, Any]) -> str:
    """The page for an OpenAPI description."""
    by_tag: dict[str, list[str]] = {}
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            section = _operation(method.upper(), path, operation)
            by_tag.setdefault(operation.get("tags", ["other"])[0], []).append(section)
    info = description["info"]
    title = html.escape(f"{info['title']} {info['version']}")
    sections = "".join(f"<h2>{html.escape(tag)}</h2>{''.join(parts)}" for tag, parts in by_tag.items())
    schemas = "".join(
        f"<h3 id='schema-{html.escape(name)}'>{html.escape(name)}</h3>{_code(schema)}"
        for name, schema in description.get("components", {}).get("schemas", {}).items()
    )
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width'>"
        f"<title>{title}</title><style>{_STYLE}</style></head><body><h1>{title}</h1>"
        f"<p>{html.escape(info.get('description', ''))} Machine-readable: "
        f"<a href='openapi.json'>openapi.json</a>.</p>{sections}<h2>schemas</h2>{schemas}</body></html>"
    )


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    parts = [
        f"<h3><span class='method'>{method}</span> <code>{html.escape(path)}</code></h3>",
        f"<div>{html.escape(operation.get('summary', ''))}</div>",
    ]
    if operation.get("description"):
        parts.append(f"<p>{html.escape(operation['description'])}</p>")
    if operation.get("parameters"):
        parts.append(f"<table>{''.join(map(_parameter, operation['parameters']))}</table>")
    for media_type, body in operation.get("requestBody", {}).get("content", {}).items():
        parts.append(f"<div class='quiet'>body, {html.escape(media_type)}</div>{_code(body.get('example'))}")
    if "x-frames" in operation:
        frames = "\n".join(json.dumps(frame, ensure_ascii=False) for frame in operation["x-frames"])
        parts.append(f"<div class='quiet'>frames</div>{_code(frames)}")
    parts += [_answer(status, answer) for status, answer in sorted(operation.get("responses", {}).items())]
    return "".join(parts)


def _parameter(parameter: dict[str, Any]) -> str:
    return (
        f"<tr><td><code>{html.escape(parameter['name'])}</code></td>"
        f"<td class='quiet'>{html.escape(parameter['in'])}</td>"
        f"<td>{html.escape(parameter.get('description', ''))}</td></tr>"
    )


def _answer(status: str, answer: dict[str, Any]) -> str:
    line = f"<div class='quiet'>{html.escape(status)} {html.escape(answer.get('description', ''))}</div>"
    examples = [body["example"] for body in answer.get("content", {}).values() if "example" in body]
    return line + "".join(map(_code, examples))


def _code(example: Any) -> str:
    text = example if isinstance(example, str) else json.dumps(example, indent=2, ensure_ascii=False)
    return f"<pre>{html.escape(text)}</pre>"
