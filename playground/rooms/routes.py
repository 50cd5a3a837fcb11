"""HTTP routes of classrooms: open, enter, vote, event stream and the teacher's actions."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Any
from weakref import WeakKeyDictionary

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from engine.errors import EngineError, TraceError
from engine.messages import Message, add_templates
from engine.settings import SETTINGS
from engine.trace.checks import read_json_strict
from playground.i18n.languages import choose_language
from playground.rooms import page, qr
from playground.rooms.registry import CODE_ALPHABET, CODE_LENGTH, RoomRegistry
from playground.rooms.room import TEACHER, Room, RoomError
from playground.rooms.stream import ClassScene, NewsResponse, ParticipantView, TeacherView
from playground.shell.guard import error_message
from playground.shell.visitors import request_address
from playground.storage.database import database_errors

SECRET_HEADER = "x-room-secret"
"""Request header with the teacher's secret."""
_COOKIE = "participant"
_MAX_BODY_BYTES = 8_000
_NO_DATABASE = (
    "The database of the classrooms (PLAYGROUND_JOURNAL) does not answer. Try again in a minute."
)
_Handler = Callable[["RoomRoutes", Request], Awaitable[Response]]


def routes(rooms: RoomRegistry) -> list[Route]:
    """Return the routes of rooms and of the participant page's files."""
    own = RoomRoutes(rooms)
    return [
        Route("/rooms", own.open, methods=["POST"]),
        Route("/room", own.ask_for_code),
        Route("/room/{code}", own.enter),
        Route("/room/{code}/vote", own.vote, methods=["POST"]),
        Route("/room/{code}/events", own.events),
        Route("/room/{code}/teach", own.teach, methods=["POST"]),
        *page.routes(),
    ]


def _answer_errors(handler: _Handler) -> _Handler:
    """Convert errors of a handler to JSON responses with one sentence."""

    @functools.wraps(handler)
    async def safe(self: RoomRoutes, request: Request) -> Response:
        try:
            return await handler(self, request)
        except RoomError as error:
            return _json_response({"error": str(error)}, error.status)
        except EngineError as error:
            return _json_response({"error": str(error)}, 400)
        except database_errors():
            return _json_response({"error": _NO_DATABASE}, 503)
        except Exception as error:
            return _json_response({"error": error_message(error)}, 500)

    return safe


def _json_response(values: dict[str, Any], status: int = 200) -> JSONResponse:
    return JSONResponse(add_templates(values), status, {"Cache-Control": "no-store"})


class RoomRoutes:
    """The request handlers.

    Args:
        rooms: The registry of rooms.
    """

    def __init__(self, rooms: RoomRegistry) -> None:
        self.rooms = rooms
        self._scenes: WeakKeyDictionary[Room, ClassScene] = WeakKeyDictionary()

    @_answer_errors
    async def open(self, request: Request) -> Response:
        """Open a room for a lesson."""
        fields = await _read_request(request, lesson=..., language="en", card=1)
        # In a thread, since the lesson's recorded runs are read from disk.
        room, secret = await asyncio.to_thread(
            self.rooms.open,
            fields["lesson"],
            fields["language"],
            fields["card"],
            request_address(request),
        )
        return _json_response({"code": room.state.code, "secret": secret}, 201)

    async def ask_for_code(self, request: Request) -> Response:
        """Show the form for a code, or redirect to the room of the given code."""
        code = _normalize_code(request.query_params.get("code", ""))
        return (
            RedirectResponse(f"./room/{code}", 303)
            if code
            else page.code_page(_request_language(request))
        )

    async def enter(self, request: Request) -> Response:
        """Admit a participant and return the room's page."""
        code = request.path_params["code"]
        if code != _normalize_code(code) and _normalize_code(code):
            # The cookie's path contains the code, so it must be spelled one way.
            return RedirectResponse(f"./{_normalize_code(code)}", 303)
        address, known = request_address(request), request.cookies.get(_COOKIE, "")
        try:
            # HEAD must not change anything, so it admits nobody.
            if request.method == "HEAD":
                there = await asyncio.to_thread(self.rooms.find_room, code, address, known)
                return page.participant_page(there.deck.language)
            room, participant = await asyncio.to_thread(self.rooms.enter, code, known, address)
        except RoomError as error:
            return page.refusal_page(str(error), error.status, _request_language(request))
        except database_errors():
            return page.refusal_page(_NO_DATABASE, 503, _request_language(request))
        answer = page.participant_page(room.deck.language)
        answer.set_cookie(
            _COOKIE,
            participant,
            max_age=int(SETTINGS.room_idle_s),
            path=f"{request.scope.get('root_path', '')}/room/{code}",
            secure=_is_secure(request),
            httponly=True,
            samesite="lax",
        )
        return answer

    @_answer_errors
    async def vote(self, request: Request) -> Response:
        """Count a bet."""
        fields = await _read_request(request, card=..., answer=...)
        code, known = request.path_params["code"], request.cookies.get(_COOKIE, "")
        bet = fields["card"], fields["answer"]
        await asyncio.to_thread(self.rooms.vote, code, known, request_address(request), *bet)
        return _json_response({"card": fields["card"], "answer": fields["answer"]})

    @_answer_errors
    async def events(self, request: Request) -> Response:
        """Stream the events of a room to a participant or the teacher."""
        code, address = request.path_params["code"], request_address(request)
        if SECRET_HEADER in request.headers:
            secret = request.headers[SECRET_HEADER]
            room = await asyncio.to_thread(self.rooms.find_as_teacher, code, secret, address)
            room.check_listener(TEACHER)
            return self._news_response(TeacherView(room), TEACHER)
        known = request.cookies.get(_COOKIE, "")
        room = await asyncio.to_thread(self.rooms.find_room, code, address, known)
        if not room.has_participant(known):
            raise RoomError("You have not entered this room yet: open its address.", 403)
        room.check_listener(known)
        view = ParticipantView(room, self._scenes.setdefault(room, ClassScene()), known)
        return self._news_response(view, known)

    def _news_response(self, view: TeacherView | ParticipantView, listener: str) -> NewsResponse:
        counted = view.room.count_listener(listener, self.rooms.wake_watch)
        return NewsResponse(view, self.rooms.sweep, counted)

    @_answer_errors
    async def teach(self, request: Request) -> Response:
        """Perform a teacher's action; ``qr`` returns the room's address as rows of a QR code."""
        fields = await _read_request(request, act=..., card=None, address="")
        code, secret = request.path_params["code"], request.headers.get(SECRET_HEADER, "")
        if fields["act"] != "qr":
            act = fields["act"], fields["card"]
            await asyncio.to_thread(self.rooms.teach, code, secret, request_address(request), *act)
            return _json_response({})
        await asyncio.to_thread(self.rooms.find_as_teacher, code, secret, request_address(request))
        address = fields["address"]
        if not isinstance(address, str) or not address.endswith(f"/room/{code}"):
            raise RoomError("address has to be the one of this room.", 400)
        try:
            return _json_response({"rows": qr.qr_rows(address)})
        except ValueError as error:
            raise RoomError(str(error), 400) from None


async def _read_request(request: Request, **names: Any) -> dict[str, Any]:
    """Return the fields of a request's JSON body, with defaults.

    A default of ``...`` marks a required field.
    """
    body = await request.body()
    if len(body) > _MAX_BODY_BYTES:
        raise RoomError(
            Message("The request is larger than {most} bytes.", most=f"{_MAX_BODY_BYTES:,}"),
            413,
        )
    try:
        found = read_json_strict(body, _MAX_BODY_BYTES)
    except TraceError as error:
        raise RoomError(Message("The request cannot be read. {why}", why=str(error)), 400) from None
    if not isinstance(found, dict) or not set(found) <= set(names):
        raise RoomError(
            Message("The request has to be an object with {names}.", names=", ".join(names)), 400
        )
    missing = next((n for n, usual in names.items() if usual is ... and n not in found), None)
    if missing:
        raise RoomError(Message("The request has no {missing}.", missing=missing), 400)
    return names | found


def _normalize_code(text: str) -> str:
    """Return a typed code in its canonical spelling, "" if it cannot be one."""
    code = "".join(sign for sign in text[:40].upper() if sign not in " -")
    return code if len(code) == CODE_LENGTH and set(code) <= set(CODE_ALPHABET) else ""


def _request_language(request: Request) -> str:
    return choose_language(request.url.query, request.headers.get("accept-language", ""))


def _is_secure(request: Request) -> bool:
    """Return whether the page was requested by https.

    The proxy's header is safe to trust for one's own cookie.
    """
    scheme = request.headers.get("x-forwarded-proto", request.url.scheme)
    return scheme.split(",")[0].strip() == "https"
