"""Route for the models that strategies refuse, for pages sent before the check was possible."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from playground.forms.spec import spec
from playground.shell import lazy_imports

PLACE = "./refusals"
"""URL of the route, relative to the page."""
_LOOK_S = 0.2
_MOST_LOOKS = 600


def routes() -> list[Route]:
    """Return the route, which answers as soon as the refusals are known."""
    return [Route(PLACE.removeprefix("."), _answer)]


async def _answer(request: Request) -> Response:
    del request
    for _ in range(_MOST_LOOKS):
        if lazy_imports.is_settled():
            strategies = (await asyncio.to_thread(spec))["strategies"]
            return JSONResponse({one["name"]: one["refused"] for one in strategies})
        await asyncio.sleep(_LOOK_S)
    return Response(status_code=503)
