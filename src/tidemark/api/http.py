"""The routes of the HTTP API, and that of MCP. The guard of `tidemark.access` protects all of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from tidemark.access.asking import asking_of
from tidemark.access.door import Door
from tidemark.api.answers import Answer, Answers
from tidemark.api.errors import Problem, problem
from tidemark.api.openapi import API, FORMATS, document, listed
from tidemark.api.streamable import mcp_endpoint
from tidemark.errors import TidemarkError
from tidemark.figures.question import ParameterError, one
from tidemark.figures.report_specs import BY_NAME, DEFINITIONS, LINES, SITES

log = logging.getLogger("tidemark.api")

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def routes(door: Door, answers: Answers) -> list[BaseRoute]:
    """The routes below /api/v1, /mcp, and the answer to every other address below /api."""

    async def reports(request: Request) -> Response:
        return JSONResponse({"reports": listed()})

    async def openapi(request: Request) -> Response:
        return JSONResponse(document(answers.limits))

    async def report(request: Request) -> Response:
        return await _answered(request, request.path_params["name"])

    def named(name: str) -> Handler:
        async def handler(request: Request) -> Response:
            return await _answered(request, name)

        return handler

    async def _answered(request: Request, name: str) -> Response:
        asking = asking_of(request.scope)
        values = {each: request.query_params.getlist(each) for each in request.query_params}
        form = one("format", values) or FORMATS[0]
        values.pop("format", None)
        if form not in FORMATS:
            raise ParameterError(
                f"format: {form!r} is none of {', '.join(FORMATS)}", "Leave it out for JSON."
            )
        answer = await answers.answer(asking, name, values)
        if asking.how != "none":
            if name == LINES.name:
                door.audit.record(asking, "raw lines opened", request.url.path)
            if form == "csv":
                door.audit.record(asking, "download", f"{name}.csv")
        if form == "csv":
            await run_in_threadpool(lambda: answer.csv)
        return _response(request, answer, name, form, answers)

    paths: dict[str, Handler] = {"reports": reports, "reports/{name}": report, "openapi.json": openapi}
    paths |= {spec.name: named(spec.name) for spec in (SITES, DEFINITIONS, LINES)}
    return [
        *(Route(f"{API}/{path}", _safe(handler), methods=["GET"]) for path, handler in paths.items()),
        Route("/mcp", mcp_endpoint(door, answers)),
        Route(
            "/api{rest:path}", _missing, methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
        ),
    ]


def _response(request: Request, answer: Answer, name: str, form: str, answers: Answers) -> Response:
    tag = f'W/"{answer.tag}-{form}"'
    headers = {
        "etag": tag,
        "cache-control": "private, no-cache",
        "vary": "Authorization, Cookie",
        "tidemark-time-limit": f"{answers.limits.seconds:g}",
        "tidemark-row-limit": str(answers.limits.rows),
    }
    if "limited" in answer.json:
        headers["tidemark-limited"] = ", ".join(answer.json["limited"])
    known = [each.strip() for each in request.headers.get("if-none-match", "").split(",")]
    if tag in known or tag.removeprefix("W/") in known or "*" in known:
        return Response(status_code=304, headers=headers)
    if form == "csv":
        headers["content-disposition"] = f'attachment; filename="{name}.csv"'
        return Response(answer.csv, headers=headers, media_type="text/csv; charset=utf-8")
    return Response(answer.text, headers=headers, media_type="application/json")


def _safe(handler: Handler) -> Handler:
    """The handler, whose errors are answers with `error` and `remedy`."""

    @wraps(handler)
    async def safe(request: Request) -> Response:
        try:
            return await handler(request)
        except TidemarkError as error:
            return refusal(problem(error))
        except Exception:
            log.exception("%s failed", request.url.path)
            return refusal(Problem(500, "the answer could not be made", "The server's log says why."))

    return safe


def refusal(about: Problem) -> Response:
    """The answer to a question with a problem."""
    response = JSONResponse({"error": about.error, "remedy": about.remedy}, about.status)
    if about.wait is not None:
        response.headers["retry-after"] = str(about.wait)
    return response


async def _missing(request: Request) -> Response:
    if request.method not in ("GET", "HEAD"):
        return refusal(Problem(405, f"{request.method} is not for the API", "It reads only: use GET."))
    first = next(iter(BY_NAME))
    remedy = f"GET {API}/openapi.json describes all addresses, such as {API}/reports/{first}?range=24h."
    return refusal(Problem(404, f"there is no {request.url.path}", remedy))
