"""Drawn nonsense: parameters and configs through the engine, and requests derived from schemas over HTTP.

Calls are derived from what the strategies declare, traces from ``docs/trace.schema.json`` and from recorded
runs with one value exchanged, links from the fields of an address.
"""

from __future__ import annotations

import copy
import json
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

import httpx
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from benchmarks.about import ROOT, Goal
from benchmarks.reliability import answers
from benchmarks.reliability.cards import Measured, Part
from engine import DecodeRequest
from engine.analysis import gallery
from engine.declare.params import params_of
from engine.errors import EngineError
from engine.export import generation_config
from engine.run.request import check_request
from engine.strategies import STRATEGIES
from engine.trace.json_io import trace_to_dict
from tests.helpers.bad_inputs import MODELS
from tests.helpers.client import Client
from tests.helpers.events import events_of
from tests.helpers.random_params import CHECKS, CLOCK, value_of
from tests.helpers.schemas import JUNK, from_schema, junk
from tests.helpers.server import process

T = TypeVar("T")
_VOCABULARY = 4096
_MOST_CHANGED = 4
_MOST_TOKENS = 3
_SELDOM = 8
_AT_ONCE = 4
_SHARES = (("call", 5), ("link", 2), ("address", 1), ("schema", 1), ("trace", 1))
"""Of ten requests so many are of each kind."""
_TABS = (*STRATEGIES, "compare", "draws", "watermark_bench", "replay", "nowhere")
_STEPS = 6
"""Of a recorded run, so many are changed and sent: thousands of whole ones would take hours."""


def drawn(values: st.SearchStrategy[T], n: int, seed: int) -> list[T]:
    """Return ``n`` values, the same for the same seed, as far as there are so many."""
    found: list[T] = []

    @seeded(seed)
    @settings(
        max_examples=n,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(values)
    def take(value: T) -> None:
        found.append(value)

    take()
    return found[:n]


def _mostly(usual: st.SearchStrategy[Any], now_and_then: st.SearchStrategy[Any]) -> Any:
    """Return values of the one strategy, and of the other in one of so many cases."""
    return st.integers(1, _SELDOM).flatmap(lambda turn: now_and_then if turn == 1 else usual)


def any_params(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """Return parameters of a strategy: a few of them, legal ones, junk, and names that are none."""
    own = params_of(STRATEGIES[name].config)
    left = (*CLOCK, *CHECKS, "max_new_tokens", "prefix_allowed_tokens_fn")
    names = st.lists(
        st.sampled_from([n for n in own if n not in left]), max_size=_MOST_CHANGED, unique=True
    )

    def filled(chosen: list[str]) -> st.SearchStrategy[dict[str, Any]]:
        values = {n: _mostly(value_of(n, own[n], _VOCABULARY), junk()) for n in chosen}
        tokens = {"max_new_tokens": st.integers(1, _MOST_TOKENS)}
        # A name that is none is refused before any value is looked at.
        odd = st.fixed_dictionaries(
            {**tokens, **values}, optional={"temprature": junk(), "": junk()}
        )
        return _mostly(st.fixed_dictionaries({**tokens, **values}), odd)

    return names.flatmap(filled)


def _calls() -> st.SearchStrategy[tuple[str, list[Any]]]:
    def of(name: str) -> st.SearchStrategy[tuple[str, list[Any]]]:
        texts = st.text(min_size=1, max_size=20) | st.sampled_from(["Once", "Row, row"])
        prompt = _mostly(texts, junk())
        model = _mostly(st.sampled_from([None, "storyteller"]), st.sampled_from(MODELS))
        seed = _mostly(st.integers(0, 9), junk())
        params = _mostly(any_params(name), junk())
        return st.tuples(prompt, model, params, seed).map(lambda values: (name, list(values)))

    return st.sampled_from(list(STRATEGIES)).flatmap(of)


def _searches() -> st.SearchStrategy[str]:
    """Return addresses: fields that an address of the page has, each now and then with junk."""
    names = st.sampled_from([*STRATEGIES, "nothing"])
    number = st.integers(-2, 50).map(str) | st.text(max_size=6)
    ids = st.lists(st.integers(0, 5000), max_size=4).map(lambda found: ".".join(map(str, found)))
    as_json = st.sampled_from(list(STRATEGIES)).flatmap(any_params).map(_json)
    odd = st.sampled_from([_json(value) for value in JUNK]) | st.text(max_size=20)
    fields = {
        "tab": st.sampled_from(_TABS) | odd,
        "model": st.sampled_from(["storyteller", "", "nobody"]) | odd,
        "assistant": st.sampled_from(["storyteller-draft", ""]) | odd,
        "prompt": st.text(max_size=20),
        "params": as_json | odd,
        "seed": number,
        "step": number,
        "trace": st.sampled_from([e.name for e in gallery.list_entries()]) | odd,
        "ids": ids | odd,
        "kept": ids | odd,
        "at": number,
        "put": ids | odd,
        "text": odd,
        "form": odd,
        "pressed": st.just("1"),
    }
    made = st.fixed_dictionaries({}, optional={"strategy": names, **fields})
    return made.map(lambda query: "?" + urlencode(query, errors="replace"))


def _json(value: Any) -> str:
    return json.dumps(value, default=str)


def changed(recorded: dict[str, Any], chance: random.Random) -> bytes:
    """Return a recorded run with the value of one place exchanged, as a file."""
    made = copy.deepcopy(recorded)
    place: Any = made
    while True:
        key = chance.choice(list(place) if isinstance(place, dict) else range(len(place)))
        inner = place[key]
        if not isinstance(inner, (dict, list)) or not inner or chance.random() < 0.1:
            place[key] = chance.choice(JUNK)
            return _json(made).encode()
        place = inner


class Sender:
    """Sends one request of each kind.

    Args:
        url: of the server.
    """

    def __init__(self, url: str) -> None:
        self.client = Client(url)
        config = self.client.get("/config").json()
        self.ask = events_of(config)["dp-ask-bus"]
        self.replay = events_of(config, "upload")["replay-file"]

    def send(self, kind: str, value: Any) -> tuple[str, str]:
        """Return what kind of answer came, and what it says."""
        if kind == "call":
            return answers.called(self.client, *value)
        if kind == "link":
            return answers.linked(self.client, self.ask, value)
        if kind == "address":
            return self._opened(value)
        return answers.replayed(self.client, self.replay, value)

    def _opened(self, search: str) -> tuple[str, str]:
        try:
            answer = self.client.get("/" + search)
        except httpx.HTTPError as error:
            return answers.UNANSWERED, type(error).__name__
        bad = answer.status_code >= httpx.codes.INTERNAL_SERVER_ERROR
        return (answers.STATUS_5XX, search) if bad else (answers.RESULT, "")


def requests(n: int, seed: int) -> list[tuple[str, Any]]:
    """Return ``n`` requests of all kinds, with their kinds."""
    schema = json.loads((ROOT / "docs" / "trace.schema.json").read_text())
    chance = random.Random(seed)
    runs = [trace_to_dict(gallery.open_entry(entry.file)) for entry in gallery.list_entries()]
    for run in runs:
        run["steps"] = run["steps"][:_STEPS]
    makers: dict[str, Callable[[int], list[Any]]] = {
        "call": lambda count: drawn(_calls(), count, seed),
        "link": lambda count: drawn(_searches(), count, seed),
        "address": lambda count: drawn(_searches(), count, seed + 1),
        "schema": lambda count: [
            _json(value).encode() for value in drawn(from_schema(schema), count, seed)
        ],
        "trace": lambda count: [changed(chance.choice(runs), chance) for _ in range(count)],
    }
    total = sum(share for _, share in _SHARES)
    made = [
        (kind, value)
        for kind, share in _SHARES
        for value in makers[kind](max(1, n * share // total))
    ]
    chance.shuffle(made)
    return made


def answered(url: str, made: list[tuple[str, Any]]) -> Measured:
    """Send requests, several at a time, and count what is answered."""
    sender = Sender(url)

    def send(one: tuple[str, Any]) -> tuple[str, str, float]:
        began = time.perf_counter()
        kind, said = sender.send(*one)
        return kind, said, time.perf_counter() - began

    with closing(sender.client.http), ThreadPoolExecutor(_AT_ONCE) as pool:
        found = list(pool.map(send, made))
    bad = [
        f"{kind} to {one[0]} {str(one[1])[:200]!r}: {said[:200]}"
        for one, (kind, said, _) in zip(made, found, strict=True)
        if kind in answers.BAD
    ]
    seconds = [took for _, _, took in found]
    return Measured(
        len(made), {**_counts(kind for kind, *_ in found), **spread(seconds)}, tuple(bad)
    )


def _counts(kinds: Any) -> dict[str, int]:
    counts = Counter(kinds)
    return {kind: counts[kind] for kind in (*answers.BAD, answers.RESULT, answers.SENTENCE)}


def spread(seconds: list[float]) -> dict[str, float]:
    """Return the middle, the 95th percentile and the most of some seconds."""
    cuts = statistics.quantiles(seconds, n=100) if len(seconds) > 1 else seconds * 99
    found = {"p50_s": cuts[49], "p95_s": cuts[94], "max_s": max(seconds)}
    return {name: round(value, 6) for name, value in found.items()}


def validated(n: int, seed: int) -> Measured:
    """Put drawn parameters, and the same as config files, through the engine's validation."""
    counts, bad, seconds = Counter[str](), [], []
    tries: list[Callable[[], Any]] = []
    for name, values in drawn(_calls(), n - n // 4, seed):
        prompt, model, params, number = values
        request = DecodeRequest(name, model, prompt, params=params, seed=number)
        tries.append(partial(check_request, request))
    for name, values in drawn(_calls(), n // 4, seed + 1):
        tries.append(partial(generation_config.parse_config, _json(values[2]), name))
    for attempt in tries:
        began = time.perf_counter()
        kind, said = _judged(attempt)
        seconds.append(time.perf_counter() - began)
        counts[kind] += 1
        if kind in answers.BAD:
            bad.append(f"{attempt!r:.200}: {said[:200]}")
    return Measured(len(tries), {**_counts(counts.elements()), **spread(seconds)}, tuple(bad))


def _judged(attempt: Callable[[], Any]) -> tuple[str, str]:
    try:
        attempt()
    except EngineError as error:
        return answers.judged(str(error))
    except Exception as error:
        return answers.NO_SENTENCE, f"{type(error).__name__}: {error}"
    return answers.RESULT, ""


def measure(n: int, seed: int) -> Measured:
    """Serve from a process of its own and send it ``n`` requests."""
    made = requests(n, seed)
    with tempfile.TemporaryDirectory() as folder, process(Path(folder) / "log.txt") as (url, _):
        return answered(url, made)


_GOALS = {kind: Goal(0) for kind in answers.BAD}
VALIDATION = Part(
    name="validation",
    title="Drawn parameters and configs through the engine's validation (n of them)",
    goals=_GOALS,
    measure=validated,
    short=1000,
    nightly=10_000,
)
PART = Part(
    name="fuzz",
    title="Drawn requests derived from the schemas, over HTTP (n calls, links, addresses and traces)",
    goals=_GOALS,
    measure=measure,
    short=1000,
    nightly=10_000,
)
