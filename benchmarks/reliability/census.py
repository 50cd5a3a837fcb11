"""A census of bad inputs: every table of the tests and generated ones, by API, command line, engine and file.

Each must be refused with one sentence; nothing here is right.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.about import Goal
from benchmarks.reliability import answers
from benchmarks.reliability.cards import Measured, Part
from benchmarks.reliability.fuzz import spread
from engine import DecodeRequest, decode
from engine.cli.main import main
from engine.declare.params import Param, params_of
from engine.errors import EngineError, ParameterError
from engine.export import generation_config
from engine.strategies import STRATEGIES
from engine.trace import json_io
from engine.trace.events import Failed
from tests.helpers import bad_configs, bad_inputs, bad_strategy_inputs, bad_traces
from tests.helpers.client import Client
from tests.helpers.events import events_of
from tests.helpers.patience import PATIENCE_S
from tests.helpers.runs import finished
from tests.helpers.schemas import JUNK
from tests.helpers.server import process
from tests.helpers.strategies import make

_WANTED = 900
_GOAL_S = 0.3
_REFUSED = 2
"""The exit status of a command whose input is unusable."""
_CHANGED: dict[str, dict[str, Any]] = {
    "beam_search": {"num_beams": 3, "num_return_sequences": 2},
    "beam_sampling": {"num_beams": 3},
    "diverse_beam_search": {"num_beams": 4},
}
"""What the runs that a table changes were asked for besides."""
_BESIDE: tuple[Any, ...] = (
    float("nan"),
    float("inf"),
    -float("inf"),
    "0.5",
    "true",
    [None],
    -(2**63),
)


@dataclass(frozen=True)
class Attempt:
    """One bad input on one way in."""

    way: str
    about: str
    do: Callable[[], tuple[str, str]]
    """Returns what kind of answer came, and what it says."""


@dataclass(frozen=True)
class BadRequest:
    """A request that has to be refused, as every way in may put it."""

    strategy: str = "sampling"
    prompt: Any = "Once"
    model: Any = None
    params: Any = dataclasses.field(default_factory=dict)
    seed: Any = 0

    def by_engine(self) -> tuple[str, str]:
        """Decode it."""
        *_, last = decode(
            DecodeRequest(
                self.strategy, self.model, self.prompt, params=self.params, seed=self.seed
            )
        )
        return answers.judged(str(last.error)) if isinstance(last, Failed) else (answers.RESULT, "")

    def by_command(self) -> tuple[str, str]:
        """Put it on the command line."""
        argv = ["run", self.strategy, f"--prompt={self.prompt}", f"--seed={json.dumps(self.seed)}"]
        argv += [f"--model={self.model}"] if self.model is not None else []
        return commanded(argv + [f"--set={n}={json.dumps(v)}" for n, v in self.params.items()])

    def by_api(self, client: Client) -> tuple[str, str]:
        """Send it."""
        return answers.called(
            client, self.strategy, [self.prompt, self.model, self.params, self.seed]
        )

    def fits_a_command(self) -> bool:
        """Return whether a command can say it; there is no text without a value there."""
        texts = isinstance(self.prompt, str) and isinstance(self.model, (str, type(None)))
        return texts and self.model != ""


def commanded(argv: list[str]) -> tuple[str, str]:
    """Run a command in this process; return what kind of answer it gave, and what it said."""
    said, printed = io.StringIO(), io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(printed):
        try:
            status = main(argv)
        except SystemExit as ended:
            status = ended.code
    if status == 0:
        return answers.RESULT, printed.getvalue()
    kind, text = answers.judged(said.getvalue().removesuffix("\n"))
    whole = status == _REFUSED and not printed.getvalue()
    return (kind, text) if whole else (answers.NO_SENTENCE, f"status {status}: {text}")


def tables() -> Iterator[BadRequest]:
    """Yield the requests of the tests' tables."""
    tokens = {"max_new_tokens": 3}
    for name, value, _ in bad_inputs.PARAMS:
        yield BadRequest(params={**tokens, name: value})
    for name in bad_inputs.NAMES:
        yield BadRequest(params={**tokens, name: 1})
    for value, _ in bad_inputs.PROMPTS[:-1]:
        yield BadRequest("greedy", prompt=value)
    for value in bad_inputs.SEEDS:
        yield BadRequest("greedy", seed=value)
    for value in bad_inputs.MODELS:
        yield BadRequest("greedy", model=value)
    for strategy, others, name, value, _ in bad_strategy_inputs.STRATEGY_ROWS:
        yield BadRequest(strategy, params={**tokens, **others, name: value})


def generated() -> list[BadRequest]:
    """Return requests with one value of one parameter that its own declaration does not allow.

    Every strategy has its turn before any has its second.
    """
    own: list[list[BadRequest]] = []
    for strategy, declared in STRATEGIES.items():
        kinds = params_of(declared.config).items()
        own.append(
            [
                BadRequest(strategy, params={"max_new_tokens": 3, name: value})
                for name, kind in kinds
                for value in _beyond(kind)
                if _is_bad(name, kind, value)
            ]
        )
    longest = max(map(len, own))
    return [bad[turn] for turn in range(longest) for bad in own if turn < len(bad)]


def _beyond(kind: Param) -> Iterator[Any]:
    """Yield values that may not fit a parameter: junk, and those next to its limits."""
    yield from JUNK
    yield from _BESIDE
    low, high = (getattr(kind, name, None) for name in ("minimum", "maximum"))
    for limit, step in ((low, -1), (high, 1)):
        if isinstance(limit, (int, float)):
            yield limit + step


def _is_bad(name: str, kind: Param, value: Any) -> bool:
    try:
        kind.check(name, value)
    except ParameterError:
        return True
    return False


def _requested(bad: BadRequest, client: Client) -> Iterator[Attempt]:
    about = f"{bad!r:.200}"
    yield Attempt("engine", about, bad.by_engine)
    yield Attempt("api", about, partial(bad.by_api, client))
    if bad.fits_a_command():
        yield Attempt("command", about, bad.by_command)


def _configs(client: Client, event: int) -> Iterator[Attempt]:
    """Yield every bad config as a file that the engine reads, and as one that the page sends."""
    for data, said in bad_configs.REFUSED:
        raw = data if isinstance(data, bytes) else json.dumps(data).encode()
        yield Attempt("config file", said, partial(_read_config, raw))
        with contextlib.suppress(UnicodeDecodeError):
            ask = partial(answers.config_read, client, event, raw.decode())
            yield Attempt("config page", said, ask)


def _read_config(raw: bytes) -> tuple[str, str]:
    try:
        generation_config.parse_config(raw, "sampling")
    except EngineError as error:
        return answers.judged(str(error))
    return answers.RESULT, ""


def _traces(folder: Path, client: Client, event: int) -> Iterator[Attempt]:
    """Yield every bad trace as a file that is opened by command, and as one that is uploaded."""
    recorded: dict[str, str] = {}
    files = [(raw, said) for raw, said in bad_traces.RAW]
    for strategy, change, said in [
        *(("sampling", *row) for row in bad_traces.CHANGES),
        *bad_traces.OTHER_CHANGES,
    ]:
        if strategy not in recorded:
            recorded[strategy] = _recorded(strategy)
        made = json.loads(recorded[strategy])
        change(made)
        files.append((json.dumps(made).encode(), said))
    for number, (raw, said) in enumerate(files):
        path = folder / f"{number}.json"
        path.write_bytes(raw)
        yield Attempt("trace file", said, partial(commanded, ["replay", str(path)]))
        yield Attempt("export file", said, partial(commanded, ["export", str(path)]))
        yield Attempt("upload", said, partial(answers.replayed, client, event, raw))


def _recorded(strategy: str) -> str:
    """Return a short run of a strategy on the tiny models that the tables were written for, a record a step."""
    request = make(strategy, max_new_tokens=5, **_CHANGED.get(strategy, {}))
    trace = finished(dataclasses.replace(request, top_candidates=6))
    return json.dumps(json_io.trace_to_dict(trace))


class CensusTally:
    """Makes attempts one after the other and counts what comes of them."""

    def __init__(self) -> None:
        self.counts, self.ways = Counter[str](), Counter[str]()
        self.bad: list[str] = []
        self.seconds: list[float] = []
        self.pool = ThreadPoolExecutor(1)

    def add(self, attempt: Attempt) -> None:
        """Make an attempt; one that hangs is left, and the next has a thread of its own."""
        began = time.perf_counter()
        self.ways[attempt.way] += 1
        try:
            kind, said = self.pool.submit(attempt.do).result(PATIENCE_S)
        except LateError:
            kind, said = "hung", f"no answer after {PATIENCE_S:g} s"
            self.pool.shutdown(wait=False)
            self.pool = ThreadPoolExecutor(1)
        except BaseException as error:
            kind, said = "uncaught", f"{type(error).__name__}: {error}"
        self.seconds.append(time.perf_counter() - began)
        self.counts[kind] += 1
        if kind != answers.SENTENCE:
            self.bad.append(f"{kind} by {attempt.way}, {attempt.about}: {said[:200]}")

    def measured(self) -> Measured:
        """Return the figures."""
        counts = self.counts
        found = {
            "tried": len(self.seconds),
            "uncaught": counts["uncaught"],
            "without_a_sentence": sum(counts[kind] for kind in answers.BAD),
            "hung": counts["hung"],
            "accepted": counts[answers.RESULT],
            **{name: round(value, 4) for name, value in spread(self.seconds).items()},
            **{f"by_{way.replace(' ', '_')}": count for way, count in self.ways.items()},
        }
        return Measured(len(self.seconds), found, tuple(self.bad))


def measure(n: int, seed: int) -> Measured:
    """Try the tables of the tests, and ``n`` generated requests, on every way in.

    Args:
        n: generated requests besides the tables.
        seed: nothing is drawn here.
    """
    del seed
    with tempfile.TemporaryDirectory() as folder, process(Path(folder) / "log.txt") as (url, _):
        return tried(url, n, Path(folder))


def tried(url: str, n: int, folder: Path) -> Measured:
    """Try the same on a server.

    Args:
        url: of the server.
        n: generated requests besides the tables.
        folder: takes the files that are opened by command.
    """
    tally, client = CensusTally(), Client(url)
    config = client.get("/config").json()
    events = events_of(config)["dp-ask-bus"], events_of(config, "upload")["replay-file"]
    with contextlib.closing(client.http):
        for attempt in _attempts(n, folder, client, events):
            tally.add(attempt)
    return tally.measured()


def _attempts(n: int, folder: Path, client: Client, events: tuple[int, int]) -> Iterator[Attempt]:
    for bad in [*tables(), *generated()[:n]]:
        yield from _requested(bad, client)
    yield from _configs(client, events[0])
    yield from _traces(folder, client, events[1])


PART = Part(
    name="census",
    title="Bad inputs by API, command line, engine and file (n tried)",
    goals={
        "tried": Goal(_WANTED, at_least=True),
        "uncaught": Goal(0),
        "without_a_sentence": Goal(0),
        "hung": Goal(0),
        "accepted": Goal(0),
        "p95_s": Goal(_GOAL_S, of_speed=True),
    },
    measure=measure,
    short=300,
    nightly=5000,
    short_s=1800.0,
)
