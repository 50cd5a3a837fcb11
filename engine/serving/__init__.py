"""Decoding on replicas, in other processes or on other machines, behind the same ``decode()``.

Ray is imported only when needed, so local decoding works without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.settings import SETTINGS

if TYPE_CHECKING:
    from engine.run.jobs import JobStream
    from engine.run.recording import RunObserver
    from engine.run.request import DecodeRequest

LOCAL = "local"


def decode(
    request: DecodeRequest, witness: Callable[[str], RunObserver] | None = None
) -> JobStream:
    """Start decoding where PLAYGROUND_ENGINE says; see ``engine.run.decoding.decode``.

    Args:
        request: the request. An invalid one raises nothing; it arrives as a Failed event.
        witness: run id -> observer of the run. Runs on a replica have none, so later questions
            recompute their logits.
    """
    from engine.live import decode_on_server, is_on_server

    if is_on_server(request):
        return decode_on_server(request)
    if SETTINGS.engine == LOCAL:
        from engine.run.decoding import decode as here

        return here(request, witness)
    from engine.serving.client import RemoteRun

    return RemoteRun(request)
