"""A recorded answer as a trace, with everything that the server reported and nothing more."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from engine.endpoints.answer import Answer, AnswerText, ReportedStep
from engine.endpoints.events import list_events, read_document
from engine.endpoints.read_answer import is_request_with_response, read_answer
from engine.endpoints.request import Request, keep_settings, read_request, request_from_json
from engine.endpoints.steps import LARGEST_VOCABULARY, StepFacts, build_step
from engine.endpoints.token_names import TokenNames
from engine.errors import ParameterError, TraceError
from engine.messages import Message
from engine.statistics.metrics import compute_metrics
from engine.trace.checks import MAX_CANDIDATES, MAX_STEPS, check_trace
from engine.trace.records import ModelInfo, Output, Step, Timing, Trace
from engine.trace.served import SERVED_STRATEGY, ServedDetail, ServedInfo, is_invented_id
from engine.trace.value_types import JsonValue

SERVER_TITLES = {
    "openai": "OpenAI",
    "vllm": "vLLM",
    "llamacpp": "llama.cpp",
    "ollama": "Ollama",
    "tgi": "Text Generation Inference",
    "unknown": Message("an unknown server"),
}
MEASURED_SERVERS = ("vllm", "llamacpp")
"""Servers whose recorded answers were compared with this program's reading of them."""
_SEED_LIMIT = 2**63


def import_answer(
    data: bytes, request: bytes | None = None, vocab_size: int | None = None
) -> Trace:
    """Return the trace of an answer that a server gave.

    Args:
        data: the answer as JSON, as a stream of events or as one JSON object per line; or one
            object with the request as ``request`` and the answer as ``response``. It may be gzip.
        request: the request as JSON, if it is known: its body, or an object with it as ``body``.
        vocab_size: size of the model's vocabulary, which makes the bounds on entropy tighter.

    Raises:
        TraceError: the answer cannot be read, or has no log-probabilities.
        ParameterError: the vocabulary is too small for the answer.
    """
    value, _ = read_document(data)
    return trace_from_json(value, read_request(request), vocab_size)


def trace_from_json(value: JsonValue, asked: Request, vocab_size: int | None = None) -> Trace:
    """Return the trace of an answer's JSON, see ``import_answer``.

    Args:
        value: the answer, the list of its events, or an object with a request and its response.
        asked: the request, empty if unknown.
        vocab_size: size of the vocabulary, None if unknown.

    Raises:
        TraceError: the answer cannot be read, or has no log-probabilities.
        ParameterError: the vocabulary is too small for the answer.
    """
    if is_request_with_response(value):
        asked, value = request_from_json(value["request"]), value["response"]
    return trace_from_answer(read_answer(list_events(value)), asked, vocab_size)


def trace_from_answer(answer: Answer, asked: Request, vocab_size: int | None = None) -> Trace:
    """Return the trace of an answer that was read, see ``import_answer``.

    Raises:
        TraceError: the answer has no log-probabilities, or they cannot be.
        ParameterError: the vocabulary is too small for the answer.
    """
    if not any(choice.steps for choice in answer.choices.values()):
        raise TraceError(
            "The answer has no log-probabilities: ask the server for them with logprobs, or n_probs."
        )
    trace = _Import(answer, asked, vocab_size).build()
    check_trace(trace)
    return trace


class _Import:
    """Builds the trace of one answer.

    Args:
        answer: the answer.
        request: its request, empty if unknown.
        vocab_size: size of the vocabulary, None if unknown.
    """

    def __init__(self, answer: Answer, request: Request, vocab_size: int | None) -> None:
        self.answer, self.request, self.vocab_size = answer, request, vocab_size
        # An answer of llama.cpp repeats its settings, defaults included; the request comes on top.
        self.settings = keep_settings(answer.settings) | request.settings
        self.names = TokenNames(answer.names)
        self.prompt_ids: list[int] = []
        self.steps: list[Step] = []
        self.special: list[int] = []
        self.notes: list[str] = []

    def build(self) -> Trace:
        """Return the trace."""
        answer, request = self.answer, self.request
        for token_id in answer.prompt_ids:
            self.names.add_id(token_id)
        self.prompt_ids += answer.prompt_ids
        choices = [answer.choices[index] for index in sorted(answer.choices)]
        self._check_counts(choices)
        outputs = tuple(self._add_choice(number, c) for number, c in enumerate(choices))
        chat = request.messages is not None
        prompt = answer.prompt if request.prompt is None else request.prompt
        seed = self.settings.get("seed")
        self._note_bounds()
        trace = Trace(
            SERVED_STRATEGY,
            self.settings,
            ModelInfo(
                _model_name(answer.model), dtype="", device="", vocab_size=self.vocab_size or 0
            ),
            {},
            seed if type(seed) is int and 0 <= seed < _SEED_LIMIT else 0,
            None if chat else prompt,
            () if chat else tuple(self.prompt_ids),
            self.names.pieces,
            tuple(self.steps),
            outputs,
            Timing(total_s=answer.total_s, first_token_s=answer.first_token_s),
            eos_token_ids=tuple(dict.fromkeys(self.special)),
            special_token_ids=tuple(dict.fromkeys(self.special)),
            notes=tuple(self.notes),
            messages=request.messages,
            template={} if chat else None,
            served=self._served(),
        )
        self._check_vocabulary(trace)
        return dataclasses.replace(trace, metrics=compute_metrics(trace))

    def _served(self) -> ServedInfo:
        server = self.answer.server
        return ServedInfo(
            server,
            server in MEASURED_SERVERS,
            find_choice(self.settings),
            self.answer.completion_tokens,
            self.answer.prompt_tokens,
        )

    def _check_counts(self, choices: Sequence[AnswerText]) -> None:
        """Compare the number of reported tokens with the server's own count."""
        count = sum(len(choice.steps) for choice in choices)
        if count > MAX_STEPS:
            raise TraceError("The answer has more than {n} tokens.", n=MAX_STEPS)
        echoed = self._echoed(choices[0].steps)
        count -= echoed * len(choices)
        said = self.answer.completion_tokens
        if said is None or said == count:
            return
        if count > said:
            raise TraceError(
                "The answer has {n} tokens and the server counted {said}: events are repeated.",
                n=count,
                said=said,
            )
        self.notes.append(
            Message("The server counted {said} new tokens and reported {n}.", said=said, n=count)
        )

    def _echoed(self, steps: Sequence[ReportedStep]) -> int:
        """Return the number of steps that repeat the prompt, which an echo puts first."""
        before, new = self.answer.prompt_tokens, self.answer.completion_tokens
        if before is None or new is None or len(steps) != before + new or not before:
            return 0
        return before if self.settings.get("echo") or steps[0].chosen.logprob is None else 0

    def _add_choice(self, number: int, choice: AnswerText) -> Output:
        echoed = self._echoed(choice.steps)
        if echoed and number == 0:
            self.prompt_ids = [self.names.add(step.chosen) for step in choice.steps[:echoed]]
        steps = _add_ids(choice.steps[echoed:], choice.ids)
        facts = StepFacts(
            self.names, self.answer.distribution, self.answer.lists_best, self.vocab_size
        )
        first = len(self.steps)
        for at, step in enumerate(steps):
            self.steps.append(build_step(step, first + at, at, number, facts))
        ids = tuple(step.emit[0] for step in self.steps[first:])
        finish = choice.finish
        if finish is None:
            finish = "cancelled"
            self.notes.append(Message("The answer stops before its end."))
        text, ended = self._output_text(choice, steps)
        if ended:
            self.special.append(ids[-1])
        return Output(ids, text, "eos" if ended and finish == "stop" else finish)

    def _output_text(self, choice: AnswerText, steps: Sequence[ReportedStep]) -> tuple[str, bool]:
        """Return the text of a choice, and whether its last token only ends it."""
        parts = [step.chosen.raw for step in steps]
        if not parts or None in parts:
            return choice.text, False
        whole = b"".join(part or b"" for part in parts).decode(errors="replace")
        if choice.text.split() == whole.split():
            # llama.cpp reports the token that ends a text without its name.
            unnamed = parts[-1] == b"" and choice.finish in ("stop", "eos")
            return choice.text, unnamed and self.answer.server == "llamacpp"
        if choice.text.endswith(whole):
            self.notes.append(
                Message("The server repeated the beginning of the text, which it did not write.")
            )
            return whole, False
        if whole.startswith(choice.text):
            last = (parts[-1] or b"").decode(errors="replace")
            if choice.text + last == whole:
                return choice.text, True
            self.notes.append(Message("The server cut the text off within its last tokens."))
            return choice.text, False
        self.notes.append(
            Message("The server's text is not that of its tokens; you see that of the tokens.")
        )
        return whole, False

    def _note_bounds(self) -> None:
        """Add the notes on ids, merged characters and the vocabulary."""
        details = [s.detail for s in self.steps if isinstance(s.detail, ServedDetail)]
        if self.answer.server not in MEASURED_SERVERS:
            self.notes.append(
                Message(
                    "This format is read as its documentation says; no answer of {server} was measured.",
                    server=SERVER_TITLES[self.answer.server],
                )
            )
        merged = {step.emit[0] for step, d in zip(self.steps, details, strict=True) if d.merged}
        if any(is_invented_id(token_id) for token_id in self.names.pieces.keys() - merged):
            self.notes.append(
                Message(
                    "The server gave no ids for some tokens, so only their texts distinguish them."
                )
            )
        if any(detail.merged for detail in details):
            self.notes.append(
                Message(
                    "The server joined the tokens of one character; only the last one's probability is known."
                )
            )
        if any(len(step.candidates) == MAX_CANDIDATES for step in self.steps):
            self.notes.append(
                Message("Of each step, the {n} most likely tokens are kept.", n=MAX_CANDIDATES)
            )
        if self.vocab_size is None:
            self.notes.append(
                Message(
                    "The size of the vocabulary is unknown: upper bounds allow for {n} tokens.",
                    n=f"{LARGEST_VOCABULARY:,}",
                )
            )

    def _check_vocabulary(self, trace: Trace) -> None:
        """Check that the given size of the vocabulary agrees with the ids and lists."""
        if self.vocab_size is None:
            return
        ids = [token_id for token_id in trace.pieces if not is_invented_id(token_id)]
        listed = max(len(step.candidates) for step in trace.steps)
        least = max([listed, *(token_id + 1 for token_id in ids)])
        if self.vocab_size < least or self.vocab_size > LARGEST_VOCABULARY:
            raise ParameterError(
                "vocab_size",
                self.vocab_size,
                Message(
                    "this answer needs {least} to {most}", least=least, most=LARGEST_VOCABULARY
                ),
            )


def _add_ids(steps: Sequence[ReportedStep], ids: Sequence[int]) -> list[ReportedStep]:
    """Return the steps with the ids that the answer lists next to its text."""
    if len(ids) != len(steps):
        return list(steps)
    return [
        step
        if step.chosen.id is not None
        else dataclasses.replace(step, chosen=dataclasses.replace(step.chosen, id=token_id))
        for step, token_id in zip(steps, ids, strict=True)
    ]


def find_choice(settings: dict[str, Any]) -> str:
    """Return how the server chose tokens, as far as its settings say."""
    if settings.get("top_k") == 1:
        return "greedy"
    temperature = settings.get("temperature")
    if isinstance(temperature, bool) or not isinstance(temperature, (int, float)):
        return "unknown"
    return "sampling" if temperature > 0 else "greedy"


def _model_name(name: str) -> str:
    """Return the name of a model; of a file on the server's machine, only the file's name."""
    if not name:
        return "?"
    return PurePosixPath(name.replace("\\", "/")).name if name.endswith(".gguf") else name
