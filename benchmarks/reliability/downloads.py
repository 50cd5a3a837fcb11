"""How much longer a run takes while others want a model that never comes whole, and one that is a bomb."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import httpx

from benchmarks.about import Goal
from benchmarks.reliability.cards import Measured, Part
from engine.sources.catalogue import MODEL_DIR
from tests.helpers.client import Client
from tests.helpers.hub import serving
from tests.helpers.models import tiny_llama
from tests.helpers.server import process

_SLOW, _BOMB = "someone/slow", "someone/bomb"
_BOMB_CONFIG = {"num_hidden_layers": 100, "hidden_size": 3000, "num_attention_heads": 1}
_TOKENS = 20
_BEGUN_S = 60.0
_PATIENT_S = 5.0
_AGAIN_S = 1.0


def _repositories(folder: Path) -> None:
    """Write a model whose weights will come byte by byte, and one whose config asks for 14 GB."""
    for name in (_SLOW, _BOMB):
        tiny_llama(1, vocab_size=4096, eos_token_id=0, seed=0).save_pretrained(folder / name)
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(MODEL_DIR / "storyteller" / file, folder / name)
    path = folder / _SLOW / "model.safetensors"
    path.rename(path.with_name("slow.safetensors"))
    config = folder / _BOMB / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), **_BOMB_CONFIG}))


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    """Serve from a process of its own that knows a hub on this machine; yields its address."""
    _repositories(folder)
    with serving(folder) as hub:
        hub.drips = {"slow.safetensors"}
        own = {"HF_ENDPOINT": hub.url, "HF_HUB_CACHE": str(folder / "cache"), "HF_HUB_OFFLINE": "0"}
        with (
            patch.dict(os.environ, own),
            process(folder / "log.txt", load_timeout_s=3600) as (url, _),
        ):
            yield url


def _seconds(client: Client, seed: int) -> float:
    """Run the embedded model once; return how long it took, infinite where it failed."""
    began = time.monotonic()
    event, _ = client.call("greedy", "Once upon a time", None, {"max_new_tokens": _TOKENS}, seed)
    return time.monotonic() - began if event == "complete" else float("inf")


def _wanting(url: str, model: str, ended: threading.Event, count: list[str]) -> None:
    """Ask for a model again and again until it is over, as somebody would who presses Run once more."""
    client = Client(url)
    with client.http:
        while not ended.is_set():
            client.http.timeout = _PATIENT_S
            try:
                count.append(client.call("greedy", "Once", model, {"max_new_tokens": 2}, 0)[0])
            except httpx.HTTPError as error:  # nothing came in time
                count.append(type(error).__name__)
            ended.wait(_AGAIN_S)


def watched(url: str, n: int, seed: int) -> Measured:
    """Measure ``n`` runs alone and ``n`` beside visitors who want those models."""
    client, ended = Client(url), threading.Event()
    wanted: dict[str, list[str]] = {_SLOW: [], _BOMB: []}
    with client.http, ThreadPoolExecutor(len(wanted)) as pool:
        _seconds(client, seed)  # the first one loads the model
        alone = [_seconds(client, seed + i) for i in range(n)]
        for model, heard in wanted.items():
            pool.submit(_wanting, url, model, ended, heard)
        until = time.monotonic() + _BEGUN_S
        while not wanted[_BOMB] and time.monotonic() < until:
            time.sleep(0.05)
        beside = [_seconds(client, seed + i) for i in range(n)]
        ended.set()
    failed = sum(seconds == float("inf") for seconds in (*alone, *beside))
    usual = statistics.median(alone)
    figures = {
        "failed": failed,
        "bombs_that_ran": wanted[_BOMB].count("complete"),
        "slow_that_ran": wanted[_SLOW].count("complete"),
        "alone_median_s": round(usual, 3),
        "beside_median_s": round(statistics.median(beside), 3),
        "worst_beyond_alone_s": round(max(beside) - usual, 3),
        "bombs_refused": wanted[_BOMB].count("error"),
    }
    return Measured(len(beside), figures)


def measure(n: int, seed: int) -> Measured:
    """Serve from a process of its own and measure ``n`` runs each way."""
    with tempfile.TemporaryDirectory() as folder, _served(Path(folder)) as url:
        return watched(url, n, seed)


PART = Part(
    name="downloads",
    title="Runs while a model downloads without end and another's config is a bomb (n runs)",
    goals={
        "failed": Goal(0),
        "bombs_that_ran": Goal(0),
        "slow_that_ran": Goal(0),
        "worst_beyond_alone_s": Goal(1.0, of_speed=True),
    },
    measure=measure,
    short=20,
    nightly=200,
)
