"""Checks a method for what callers expect: reads it, then runs it in fresh processes."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import MethodError
from engine.messages import Message, join_messages
from engine.models.loading import LoadedModel, load_source
from engine.models.model_resolver import resolve_model
from engine.sandbox.confinement import BARRIERS
from engine.sandbox.folder import README, REQUIREMENTS, TAG, Method, read_method
from engine.sandbox.outcome import Outcome, collect_steps
from engine.sandbox.private_names import find_private_names
from engine.sandbox.sandbox_parent import SandboxProcess
from engine.sources.source import Source
from engine.trace.details import ForwardDetail
from engine.trace.records import Step

PASSED, FAILED, NOTED = "passed", "failed", "noted"
PROMPTS = (
    "Once upon a time, there was a little frog who",
    "One day, a big dog saw a small red ball and he",
)
"""Prompts of a trial, cut to the token length of the shorter one."""
NEW_TOKENS = 16
STOP_AFTER = 3
_RUNS = 4


@dataclass(frozen=True)
class Check:
    """Result of one check."""

    what: str
    result: str
    """passed, failed, or noted (no fault, but worth knowing)."""
    told: str


def check_method(
    folder: str | Path,
    model: str = "storyteller",
    arguments: Mapping[str, object] | None = None,
    cancelled: threading.Event | None = None,
) -> Iterator[Check]:
    """Check a method and yield each result as soon as it is known.

    Args:
        folder: the method's folder.
        model: a name that ``load`` knows, of a model on this machine.
        arguments: the method's own; missing ones use its defaults.
        cancelled: ends the check when set.

    Raises:
        Cancelled: the check was cancelled.
        MethodError: the method cannot be read.
    """
    method = read_method(folder)
    yield from _check_source(method)
    trial = _Trial(method, model, arguments or {}, cancelled)
    with trial.processes:
        yield from trial.run_checks()


def _check_source(method: Method) -> Iterator[Check]:
    names = ", ".join(f"{a.name} ({a.kind})" for a in method.arguments) or "none"
    yield Check(
        "source",
        PASSED,
        Message("{files} files, sha256 {sha256}", files=len(method.files), sha256=method.sha256),
    )
    result = PASSED if method.takes_all else FAILED
    template = (
        "own arguments: {names}"
        if method.takes_all
        else "own arguments: {names}; it needs **kwargs for the others that generate() passes on"
    )
    yield Check("signature", result, Message(template, names=names))
    yield Check("requirements", PASSED, _describe_requirements(method))
    if README not in method.files:
        yield Check("README", FAILED, Message("there is no {file}", file=README))
        return
    untold = [a.name for a in method.arguments if not a.told]
    faults = (
        []
        if method.tagged
        else [Message("its front matter lacks the tag {tag}, by which the hub lists it", tag=TAG)]
    )
    faults += (
        [Message("its table of arguments lacks {untold}", untold=", ".join(untold))]
        if untold
        else []
    )
    yield Check(
        "README",
        FAILED if faults else PASSED,
        join_messages(faults, "; ") or "tag and arguments are documented",
    )


def _describe_requirements(method: Method) -> str:
    """Return whether requirements are met, and a hint if other versions may break the method."""
    private = find_private_names(method.files)
    if private and "transformers==" not in method.files.get(REQUIREMENTS, b"").decode():
        return Message(
            "it uses private names of transformers ({names}): pin the version in {file}",
            names=", ".join(private),
            file=REQUIREMENTS,
        )
    return "met" if REQUIREMENTS in method.files else "none"


class _Trial:
    """The runs of one check; the next process starts while one runs."""

    def __init__(
        self,
        method: Method,
        model: str,
        arguments: Mapping[str, object],
        cancelled: threading.Event | None,
    ) -> None:
        self.method, self.arguments, self.cancelled = method, arguments, cancelled
        source = Source.parse(model)
        self.loaded = load_source(source)
        tokenizer = self.loaded.tokenizer
        if tokenizer is None:
            raise MethodError(
                "model = {model} is not allowed: it has no tokenizer.", model=repr(model)
            )
        self.folder = resolve_model(source)[0]
        self.processes = ExitStack()
        self._left = _RUNS
        self._next: SandboxProcess | None = None
        self.tokenizer = tokenizer
        tokens: list[list[int]] = [tokenizer(prompt)["input_ids"] for prompt in PROMPTS]
        # One length, so that two prompts make a batch without padding.
        length = min(map(len, tokens))
        self.prompts = [ids[:length] for ids in tokens]

    def run_checks(self) -> Iterator[Check]:
        """Run the method several times and yield the results."""
        first = self._run()
        if isinstance(first, MethodError):
            yield Check("runs", FAILED, str(first))
            return
        steps, outcome, barriers = first
        yield self._check_run(steps, outcome)
        yield _check_streamer(self.method, steps)
        yield _check_seed(outcome, self._run())
        yield _check_stopping(outcome, self._run(stop_after=STOP_AFTER))
        yield _check_batch(self._run(rows=2))
        missing = [name for name in BARRIERS if name not in barriers]
        told = (
            Message("this machine has no barrier for {missing}", missing=", ".join(missing))
            if missing
            else "all are up"
        )
        yield Check("barriers", NOTED if missing else PASSED, told)

    def _check_run(self, steps: list[Step], outcome: Outcome) -> Check:
        new = outcome.sequences[0]
        text = self.tokenizer.decode(new)
        back = sum(
            p.dropped for s in steps if isinstance(s.detail, ForwardDetail) for p in s.detail.passes
        )
        template = (
            "{new} tokens in {passes} forward passes, {back} taken back: {text}"
            if back
            else "{new} tokens in {passes} forward passes: {text}"
        )
        values = {"new": len(new), "passes": outcome.passes, "text": repr(text)}
        told = Message(template, **values, **({"back": back} if back else {}))
        return Check("runs", PASSED if new else FAILED, join_messages([told, *outcome.notes]))

    def _run(
        self, rows: int = 1, stop_after: int | None = None
    ) -> tuple[list[Step], Outcome, tuple[str, ...]] | MethodError:
        child = self._next or self._start_process()
        self._left -= 1
        # It loads its model while this run goes on.
        self._next = self._start_process() if self._left else None
        job = build_trial_job(self.loaded, self.prompts[:rows], self.arguments) | {
            "stop_after": stop_after
        }
        try:
            steps, outcome = collect_steps(child.run(self.method, job, self.cancelled))
        except MethodError as error:
            return error
        finally:
            child.close()
        return steps, outcome, child.barriers

    def _start_process(self) -> SandboxProcess:
        child = SandboxProcess(self.folder)
        self.processes.callback(child.close)
        return child


def build_trial_job(
    loaded: LoadedModel, rows: list[list[int]], arguments: Mapping[str, object]
) -> dict[str, Any]:
    """Return the job of a short run that stops at the model's own end tokens.

    Args:
        loaded: the model.
        rows: prompts of equal length.
        arguments: the method's own.
    """
    eos = list(loaded.eos_token_ids) or None
    config = {"max_new_tokens": NEW_TOKENS, "eos_token_id": eos, "pad_token_id": eos and eos[0]}
    return {"ids": rows, "config": config, "arguments": arguments, "seed": 0, "top_candidates": 1}


def _check_streamer(method: Method, steps: list[Step]) -> Check:
    if "streamer" not in method.takes:
        return Check(
            "streamer", NOTED, "its signature has no streamer, so nobody can follow it live"
        )
    declared = sum(s.detail.declared for s in steps if isinstance(s.detail, ForwardDetail))
    told = (
        Message("{declared} tokens were declared while it ran", declared=declared)
        if declared
        else "nothing was put into it"
    )
    return Check("streamer", PASSED if declared else FAILED, told)


def _check_seed(outcome: Outcome, again: Any) -> Check:
    if isinstance(again, MethodError):
        return Check("seed", FAILED, str(again))
    same = again[1].sequences == outcome.sequences
    told = "one seed, one text" if same else "a second run with the same seed gave another text"
    return Check("seed", PASSED if same else FAILED, told)


def _check_stopping(outcome: Outcome, run: Any) -> Check:
    if isinstance(run, MethodError):
        return Check("stopping_criteria", FAILED, str(run))
    length = len(run[1].sequences[0])
    kept = length <= STOP_AFTER or length < len(outcome.sequences[0])
    told = Message(
        "asked to stop after {stopped_after} tokens, it wrote {length}",
        stopped_after=STOP_AFTER,
        length=length,
    )
    return Check("stopping_criteria", PASSED if kept else FAILED, told)


def _check_batch(run: Any) -> Check:
    if isinstance(run, MethodError):
        return Check("batch of two", NOTED, str(run))
    rows = len(run[1].sequences)
    return Check(
        "batch of two",
        PASSED if rows == 2 else NOTED,
        Message("{rows} sequences for two prompts", rows=rows),
    )
