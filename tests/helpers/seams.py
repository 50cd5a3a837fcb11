"""The places where our code calls a model's or transformers' code, and exceptions raised there."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

Seam = tuple[str, str, str]
"""Our function, and the module and name of the function that it calls."""
_OURS = ("engine", "playground")
_THEIRS = ("transformers", "tokenizers")


def find_seams(do: Callable[[], object]) -> list[Seam]:
    """Return the seams that a piece of work crosses, in order."""
    found: dict[Seam, None] = {}
    with _watching(found.setdefault):
        do()
    return list(found)


def raise_at(seam: Seam, error: BaseException, do: Callable[[], object]) -> bool:
    """Do the work with an exception at the beginning of a call; return whether it was made."""
    raised = []

    def check(here: Seam) -> None:
        if here == seam and not raised:
            raised.append(here)
            raise error

    with _watching(check):
        do()
    return bool(raised)


@contextmanager
def _watching(seen: Callable[[Seam], Any]) -> Iterator[None]:
    """Call a function at every seam, in this thread and in those that begin meanwhile."""

    def profile(frame: FrameType, event: str, argument: object) -> None:
        del argument
        if event == "call" and _package(frame) in _THEIRS:
            caller = _caller(frame)
            if caller is not None:
                code = frame.f_code
                name = f"{caller.f_globals['__name__']}.{caller.f_code.co_name}"
                # What is raised here is raised in the frame of the call.
                seen((name, frame.f_globals["__name__"], code.co_qualname))

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _caller(frame: FrameType) -> FrameType | None:
    """Return our frame that calls this one, past torch and the standard library; None if theirs does."""
    back = frame.f_back
    while back is not None and _package(back) not in (*_OURS, *_THEIRS):
        back = back.f_back
    return back if back is not None and _package(back) in _OURS else None
