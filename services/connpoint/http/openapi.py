"""Pieces of the OpenAPI description: bodies are read by msgspec, so their schemas come from there too."""

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

import msgspec

from braid import problems

_REFERENCE = "#/components/schemas/{name}"


class ProblemDocument(msgspec.Struct):
    """An RFC 9457 problem document. Some kinds have further members, such as `limit` or `position`."""

    type: str
    title: str
    status: int
    detail: str
    field: str | msgspec.UnsetType = msgspec.UNSET


def reference(name: str) -> dict[str, Any]:
    return {"$ref": _REFERENCE.format(name=name)}


def json_body(schema: dict[str, Any], example: Any, media_type: str = "application/json") -> dict[str, Any]:
    """For `openapi_extra`: a request body of one media type."""
    return {"requestBody": {"required": True, "content": content(schema, example, media_type)}}


def content(schema: dict[str, Any], example: Any, media_type: str = "application/json") -> dict[str, Any]:
    return {media_type: {"schema": schema, "example": example}}


def parameter(name: str, where: str, description: str, schema: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "name": name,
        "in": where,
        "required": False,
        "description": description,
        "schema": schema or {"type": "string"},
    }


def answers(
    status: int, description: str, schema: dict[str, Any], example: Any, *, errors: Iterable[int] = ()
) -> dict[int | str, dict[str, Any]]:
    """For `responses`: the good answer, and the problems that may come instead."""
    return {status: {"description": description, "content": content(schema, example)}, **problem_answers(*errors)}


def problem_answers(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {problems.MEDIA_TYPE: {"schema": reference("ProblemDocument")}},
        }
        for status in statuses
    }


def component_schemas(structs: Iterable[type[msgspec.Struct]]) -> dict[str, Any]:
    _, components = msgspec.json.schema_components(
        [_documentable(struct) for struct in structs], ref_template=_REFERENCE
    )
    return components


def _documentable(struct: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """msgspec cannot write down the default of a raw field, so such a field is shown as any JSON value."""
    fields = msgspec.structs.fields(struct)
    if not any(field.type is msgspec.Raw for field in fields):
        return struct
    shown: list[tuple[str, Any, Any]] = []
    for field in fields:
        if field.type is msgspec.Raw:
            shown.append((field.encode_name, Any | msgspec.UnsetType, msgspec.UNSET))
        elif field.default_factory is not msgspec.NODEFAULT:
            shown.append((field.encode_name, field.type, msgspec.field(default_factory=field.default_factory)))
        else:
            shown.append((field.encode_name, field.type, field.default))
    return msgspec.defstruct(struct.__name__, shown, namespace={"__doc__": struct.__doc__}, forbid_unknown_fields=True)
