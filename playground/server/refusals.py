"""Route for the models that strategies refuse, for pages sent before the check was possible."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from playground.forms.spec import page_spec
from playground.shell import lazy_imports

REFUSALS_URL = "./refusals"
"""URL of the route, relative to the page."""
_POLL_S = 0.2
_MAX_POLLS = 600


def routes() -> list[Route]:
    """Return the route, which answers as soon as the refusals are known."""
    return [Route(REFUSALS_URL.removeprefix("."), _serve_refusals)]


async def _serve_refusals(request: Request) -> Response:
    del request
    for _ in range(_MAX_POLLS):
        if lazy_imports.is_finished():
            strategies = (await asyncio.to_thread(page_spec))["strategies"]
            return JSONResponse({one["name"]: one["refused"] for one in strategies})
        await asyncio.sleep(_POLL_S)
    return Response(status_code=503)
