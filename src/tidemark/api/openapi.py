"""The OpenAPI document of the API, and JSON schemas, from the declaration of the reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidemark.access.sessions import COOKIE
from tidemark.figures.report_specs import ALL, BY_NAME, DEFINITIONS, LINES, SITES
from tidemark.figures.spec import LIMIT, Figure, Figures, Parameter, ReportSpec

if TYPE_CHECKING:
    from tidemark.api.answers import Limits

API = "/api/v1"
FORMATS = ("json", "csv")
_ERRORS = {
    400: "A parameter cannot be used: `error` names it.",
    401: "Nobody is logged in, and there is no valid key.",
    403: "The key's role or sites do not allow it.",
    404: "There is no such report.",
    429: "Too many questions of this key in a minute; Retry-After says how long to wait.",
    503: "The tables are being made, or the time limit was reached.",
}


def parameters_of(spec: ReportSpec) -> tuple[Parameter, ...]:
    """The parameters of a report for programs."""
    return (*spec.all_parameters, *((LIMIT,) if LIMIT not in spec.parameters else ()))


def parameter_schema(parameter: Parameter) -> dict[str, Any]:
    """The JSON schema of a parameter's value."""
    if parameter.type == "integer":
        return {"type": "integer", "minimum": 1}
    schema: dict[str, Any] = {"type": "string"}
    if parameter.choices:
        schema["enum"] = list(parameter.choices)
    return {"type": "array", "items": schema} if parameter.repeated else schema


def answer_schema(spec: ReportSpec) -> dict[str, Any]:
    """The JSON schema of a report's answer."""
    lists: dict[str, Any] = {}
    for name, figures in spec.lists.items():
        rows: dict[str, Any] = {"type": "array", "items": _object(figures)}
        lists[name] = {"type": "array", "items": rows} if name in spec.nested else rows
    schema = _object(spec.figures)
    limited = {"type": "object", "description": "Lists that are longer than shown, with their lengths."}
    schema["properties"] |= {**lists, "limited": limited}
    schema["required"] += list(lists)
    return schema


def _object(figures: Figures) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {figure.name: _value(figure) for figure in figures},
        "required": [figure.name for figure in figures],
    }


def _value(figure: Figure) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string" if figure.type == "time" else figure.type}
    if figure.type == "time":
        schema["format"] = "date-time"
    if figure.many:
        schema = {"type": "array", "items": schema}
    if figure.optional:
        schema["type"] = [schema["type"], "null"]
    return {**schema, "description": figure.about}


def listed() -> list[dict[str, Any]]:
    """The reports: name, meaning, address, and parameters with their meaning."""
    return [
        {
            "name": spec.name,
            "about": spec.about,
            "address": f"{API}/reports/{spec.name}",
            "parameters": [
                {"name": p.name, "required": p.argument, "about": p.about, "schema": parameter_schema(p)}
                for p in parameters_of(spec)
            ],
        }
        for spec in BY_NAME.values()
    ]


def document(limits: Limits) -> dict[str, Any]:
    """The OpenAPI document."""
    paths: dict[str, Any] = {f"{API}/reports/{name}": _operation(spec) for name, spec in BY_NAME.items()}
    paths |= {f"{API}/{spec.name}": _operation(spec) for spec in (SITES, DEFINITIONS, LINES)}
    for name, about in (("reports", "The reports and their parameters."), ("openapi.json", "This document.")):
        answers = {"200": _content(about, {"application/json": {"type": "object"}}), "401": _error(401)}
        paths[f"{API}/{name}"] = {
            "get": {"operationId": name.partition(".")[0], "summary": about, "responses": answers}
        }
    texts = {name: {"type": "string"} for name in ("error", "remedy")}
    error = {"type": "object", "properties": texts, "required": list(texts)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tidemark",
            "version": "1",
            "description": f"Figures of web-server logs, the same as on the dashboard. A question takes at most "
            f"{limits.seconds:g} s, a list has at most {limits.rows} rows, a key asks at most {limits.per_minute} "
            "questions in a minute.",
        },
        "security": [{"key": []}, {"session": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "`tidemark access key add`"},
                "session": {"type": "apiKey", "in": "cookie", "name": COOKIE},
            },
            "schemas": {"Error": error, **{name: answer_schema(spec) for name, spec in ALL.items()}},
        },
    }


def _operation(spec: ReportSpec) -> dict[str, Any]:
    about = [
        {
            "name": p.name,
            "in": "query",
            "required": p.argument,
            "description": p.about,
            "schema": parameter_schema(p),
        }
        for p in parameters_of(spec)
    ]
    form = {"name": "format", "in": "query", "schema": {"type": "string", "enum": list(FORMATS)}}
    schema = {"$ref": f"#/components/schemas/{spec.name}"}
    contents = {"application/json": schema, "text/csv": {"type": "string"}}
    answers = {
        "200": _content(spec.about, contents),
        "304": {"description": "As in the answer with this ETag."},
    }
    answers |= {str(status): _error(status) for status in _ERRORS}
    return {
        "get": {
            "operationId": spec.name,
            "summary": spec.about.partition(". ")[0].rstrip(".") + ".",
            "description": spec.about,
            "parameters": [*about, form],
            "responses": answers,
        }
    }


def _content(about: str, contents: dict[str, Any]) -> dict[str, Any]:
    return {
        "description": about,
        "content": {kind: {"schema": schema} for kind, schema in contents.items()},
    }


def _error(status: int) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Error"}
    return _content(_ERRORS[status], {"application/json": schema})
