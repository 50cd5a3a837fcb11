"""Runs on replicas: other processes, here or on other machines, behind the same ``decode()``.

Ray is imported where something of it is needed: whoever decodes in his own process needs none of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.settings import SETTINGS

if TYPE_CHECKING:
    from engine.run.recording import Witness
    from engine.run.request import DecodeRequest
    from engine.run.work import Work

LOCAL = "local"


def decode(request: DecodeRequest, witness: Callable[[str], Witness] | None = None) -> Work:
    """Start decoding where PLAYGROUND_ENGINE says; see ``engine.run.decoding.decode``.

    Args:
        request: what to decode. Nothing is raised for a bad request: it arrives as Failed.
        witness: run's id -> who follows the run from within. A run on a replica has none: whoever asks
            about it later has its logits computed again.
    """
    if SETTINGS.engine == LOCAL:
        from engine.run.decoding import decode as here

        return here(request, witness)
    from engine.serving.client import RemoteRun

    return RemoteRun(request)
