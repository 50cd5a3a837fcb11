"""A run whose process is gone is made again by another one: a run is a function of its request.

What was sent of it already is compared, and not sent again. The page sees a pause.
"""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Mapping
from typing import Any

from engine.errors import EngineError
from engine.run.request import DecodeRequest
from playground.form import check_here, form_request
from playground.journal import JOURNAL, Press
from playground.kept.runs import WrittenRun
from playground.remade import Remade
from playground.stream import progress, state_of, stream, whole_state

_LOOK_S = 0.4
_LOOKING = {"phase": "starting", "says": "Looking for what ran here…"}


def going_on(asked: Mapping[str, Any], key: str) -> Generator[str, None, None] | None:
    """Return what goes on with a run for a page that comes back, None where nothing can.

    Args:
        asked: what the page sent: the name of its press, and of the run.
        key: where the page shows it.
    """
    run_id, press = str(asked.get("run", ""))[:64], str(asked.get("press", ""))
    if not run_id or not press or JOURNAL.has(run_id):
        return None
    known = JOURNAL.kept(run_id)
    if known is None or known.ended or not known.asked or known.press != press:
        return None
    try:
        again = Press(press, json.loads(known.asked))
        return _follow(run_id, key, check_here(form_request(again.asked)), again)
    except EngineError:
        return None


def _follow(
    run_id: str, key: str, request: DecodeRequest, press: Press
) -> Generator[str, None, None]:
    """Yield what another process has of a run as it comes, and go on with it as soon as that one is gone."""
    told = 0
    while (known := JOURNAL.kept(run_id)) is not None:
        yield from known.texts[told:]
        told = len(known.texts)
        if known.ended:
            return
        claimed = None if known.lives else JOURNAL.claim(run_id, known)
        if claimed is not None:
            yield from _go_on(run_id, claimed, request, press)
            return
        yield progress(run_id, key, _LOOKING)
        time.sleep(_LOOK_S)
    yield whole_state(run_id)


def _go_on(
    run_id: str, known: WrittenRun, request: DecodeRequest, press: Press
) -> Generator[str, None, None]:
    """Yield what comes after what is known of a run.

    A page may have had more of it than was written down: with the first news it gets the whole.
    """
    whole = False
    for text in stream(request, press=press, remade=Remade(run_id, known)):
        news = json.loads(text)
        if not whole and "seq" in news:
            whole = True
            yield state_of(run_id, [*known.texts, text])
        else:
            yield text
