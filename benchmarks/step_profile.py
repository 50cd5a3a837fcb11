"""Where the time of one recorded step goes, and what recording costs beside plain generate().

Greedy search, sampling and beams decode the same tokens with and without a record, interleaved, on an
embedded and on a real model. A ratio of 1 means that recording is free: of wall time, and of processor
time, which a busy machine disturbs less. A third run of every round is the same with a stopwatch at each
part of its steps, in processor time of the thread that decodes.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from inspect import isfunction
from typing import Any
from unittest import mock

import torch
from transformers import StoppingCriteriaList

from benchmarks.about import Goal
from benchmarks.figures import Figure, tell
from benchmarks.timing import timed
from engine import DecodeRequest, LoadedModel, decode, load
from engine.loops import recorder
from engine.loops.beams import greedy_path, search
from engine.loops.beams.search_state import BeamSearch
from engine.loops.forward import Forward
from engine.models.install import install_model
from engine.run import run
from engine.run.recording import Recording
from engine.trace.events import Failed, StepRecorded, TextDelta
from engine.trace.json_io import step_to_dict

PROMPT = [5, 9, 11, 4, 20, 7]
STRATEGIES: dict[str, tuple[str, dict[str, Any], Goal]] = {
    "greedy": ("greedy", {}, Goal(0.97, at_least=True)),
    "sampling": ("sampling", {"top_k": 50}, Goal(0.97, at_least=True)),
    "8 beams": ("beam_search", {"num_beams": 8}, Goal(1.0, at_least=True)),
}
"""Name, parameters and goal of the ratio until the text is there."""
PARTS: Sequence[tuple[str, Any, str]] = (
    ("once a run", run.Run, "execute"),
    ("rest of the step", run, "call_generate"),
    ("forward", Forward, "__call__"),
    ("forward", Forward, "last_logits"),
    ("forward", Forward, "reorder"),
    ("observe", recorder.Recorder, "observe"),
    ("record", recorder.Recorder, "start_record"),
    ("packing, dataclasses", recorder, "start_transfer"),
    ("packing, dataclasses", recorder, "make_row"),
    ("beams' own decision", BeamSearch, "choose"),
    ("beams' own decision", BeamSearch, "decide"),
    ("beams' own decision", search.SearchRecord, "_add_pool"),
    ("stopping criteria", StoppingCriteriaList, "__call__"),
    ("sending", Recording, "add"),
    ("once a run: greedy path", greedy_path, "decode_greedy_path"),
)
"""Name, where it is found, and under which name; what one part calls of another counts for that one."""
WHOLE = "once a run: greedy path"
"""What it calls counts for itself."""
JSON = "JSON (reader's thread)"


class Stopwatch:
    """Sums the processor time of one thread by parts; a part within another stops the other's."""

    def __init__(self) -> None:
        self.spent: defaultdict[str, float] = defaultdict(float)
        self._open: list[str] = []
        self._since = 0.0

    def _turn(self) -> None:
        now = time.thread_time()
        if self._open:
            self.spent[self._open[-1]] += now - self._since
        self._since = now

    def around(self, part: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return the work, timed."""

        @wraps(work)
        def measured(*arguments: Any, **named: Any) -> Any:
            if WHOLE in self._open:
                return work(*arguments, **named)
            self._turn()
            self._open.append(part)
            try:
                result = work(*arguments, **named)
            finally:
                self._turn()
                self._open.pop()
            # What was begun and is finished later is of the same part.
            return self.around(part, result) if isfunction(result) else result

        return measured

    @contextmanager
    def everywhere(self) -> Generator[None, None, None]:
        """Time all parts."""
        with ExitStack() as stack:
            for part, owner, name in PARTS:
                timed_work = self.around(part, getattr(owner, name))
                stack.enter_context(mock.patch.object(owner, name, timed_work))
            yield


@dataclass(frozen=True)
class Cost:
    """What a run took."""

    answer_s: float
    """Until its last step and its text were there."""
    whole_s: float
    """Until its last event."""
    cpu_s: float
    """Processor time of the process until its last event."""
    tokens: list[int]
    steps: int


def recorded(request: DecodeRequest, json_watch: Stopwatch | None = None) -> Cost:
    """Decode and read the events, turning steps into JSON where a stopwatch for that is given."""
    written = [] if json_watch is None else [json_watch.around(JSON, _written)]
    cpu, started = time.process_time(), time.perf_counter()
    answered = steps = 0
    last = None
    for last in decode(request):
        if isinstance(last, StepRecorded | TextDelta):
            answered = time.perf_counter()
        if isinstance(last, StepRecorded):
            steps += 1
            for write in written:
                write(last.step)
    ended = time.perf_counter()
    assert last is not None
    if isinstance(last, Failed):
        raise last.error
    tokens = list(last.trace.outputs[0].token_ids)
    return Cost(answered - started, ended - started, time.process_time() - cpu, tokens, steps)


def _written(step: Any) -> str:
    return json.dumps(step_to_dict(step))


def plain(loaded: LoadedModel, strategy: str, tokens: int) -> Cost:
    """Let generate() decode the same without a record."""
    params = STRATEGIES[strategy][1]
    prompt = torch.tensor([PROMPT])
    torch.manual_seed(0)
    generate = partial(
        loaded.model.generate,
        prompt,
        attention_mask=torch.ones_like(prompt),
        do_sample=strategy == "sampling",
        max_new_tokens=tokens,
        min_new_tokens=tokens - 1,
        **params,
    )
    cpu = time.process_time()
    seconds, out = timed(generate)
    cpu = time.process_time() - cpu
    return Cost(seconds, seconds, cpu, out[0, len(PROMPT) :].tolist(), tokens)


def compare(loaded: LoadedModel, strategy: str, tokens: int, rounds: int) -> list[Figure]:
    """Interleave all three; return ratios, and milliseconds of every part."""
    name, params, goal = STRATEGIES[strategy]
    lengths = {"max_new_tokens": tokens, "min_new_tokens": tokens - 1}
    request = DecodeRequest(name, loaded, input_ids=PROMPT, params={**params, **lengths})
    recorded(request), plain(loaded, strategy, tokens)
    ratios: defaultdict[str, list[float]] = defaultdict(list)
    parts: defaultdict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        ours, theirs = recorded(request), plain(loaded, strategy, tokens)
        assert ours.tokens == theirs.tokens, strategy
        ratios["answer"].append(theirs.whole_s / ours.answer_s)
        ratios["whole"].append(theirs.whole_s / ours.whole_s)
        ratios["cpu"].append(theirs.cpu_s / ours.cpu_s)
        watch, json_watch = Stopwatch(), Stopwatch()
        with watch.everywhere():
            steps = recorded(request, json_watch).steps
        for part in dict.fromkeys(part for part, _, _ in PARTS):
            per = 1 if part.startswith("once") else steps
            parts[part].append(1000 * watch.spent[part] / per)
        parts[JSON].append(1000 * json_watch.spent[JSON] / steps)
    about = f"{loaded.name}, {strategy}"
    return [
        Figure(f"{about}: recorded until its text is there ÷ generate()", ratios["answer"], goal),
        Figure(f"{about}: the same until its end", ratios["whole"]),
        Figure(f"{about}: the same in processor time", ratios["cpu"]),
        *(Figure(f"{about}: ms {part}", ms) for part, ms in parts.items() if any(ms)),
    ]


def main() -> None:
    """Print a card for people and one JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--tokens", type=int, default=60)
    parser.add_argument("--models", nargs="+", default=["storyteller", "smollm2"])
    parser.add_argument("--strategies", nargs="+", default=list(STRATEGIES), choices=STRATEGIES)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if "smollm2" in arguments.models:
        install_model("smollm2", lambda what, done, total: None)
    print(f"Recording 20 candidates against generate(), {arguments.threads} threads")
    figures = []
    for loaded in map(load, arguments.models):
        for strategy in arguments.strategies:
            for figure in compare(loaded, strategy, arguments.tokens, arguments.rounds):
                print(f"  {figure}", flush=True)
                figures.append(figure)
    tell("step_profile", figures, threads=arguments.threads)


if __name__ == "__main__":
    main()
