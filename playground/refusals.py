"""Which models cannot serve which strategies, for a page that was sent before anybody could try."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from playground import later
from playground.spec import spec

PLACE = "./refusals"
"""Where a page asks for them, relative to it."""
_LOOK_S = 0.2
_MOST_LOOKS = 600


def routes() -> list[Route]:
    """Return the route at which they are told as soon as they are known."""
    return [Route(PLACE.removeprefix("."), _answer)]


async def _answer(request: Request) -> Response:
    del request
    for _ in range(_MOST_LOOKS):
        if later.is_settled():
            strategies = (await asyncio.to_thread(spec))["strategies"]
            return JSONResponse({one["name"]: one["refused"] for one in strategies})
        await asyncio.sleep(_LOOK_S)
    return Response(status_code=503)
