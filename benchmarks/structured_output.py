"""Structured output: how often a chat model's answer matches a schema, and what the grammar costs.

SmolLM2 135M Instruct answers the same questions for three schemas, with and without the grammar, by greedy
search. An answer is judged by the package jsonschema. The mask of a step is timed alone, on the ids of the
answers, beside a step of the same run; texts of Storyteller are timed alike. Storyteller then writes 1,000
texts, each with its own grammar, and the memory of this process and of those that compile grammars is read
along the way.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

import jsonschema
import torch

from benchmarks.figures import Figure, tell
from engine import DecodeRequest, LoadedModel, load
from engine.models.install import install_model
from engine.models.structured_outputs import make_grammar_processor
from engine.run.decoding import decode_to_trace
from engine.trace.records import Trace


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_TEXT = {"type": "string", "maxLength": 60}
SCHEMAS = {
    "sentiment": _object(sentiment={"enum": ["positive", "neutral", "negative"]}, reason=_TEXT),
    "person": _object(name=_TEXT, age={"type": "integer", "minimum": 0, "maximum": 120}),
    "list": _object(items={"type": "array", "items": _TEXT, "minItems": 2, "maxItems": 3}),
}
SUBJECTS = (
    "The soup was cold.",
    "I love this park.",
    "The train was late again.",
    "Anna baked a cake.",
    "My old dog sleeps all day.",
    "The film was far too long.",
    "Tom is seven and likes frogs.",
    "The new phone works well.",
    "It rained on our holiday.",
    "She won the race.",
    "Nobody answered my letter.",
    "Grandfather fixed the clock.",
    "The hotel was clean and quiet.",
    "We lost the match.",
    "He forgot her birthday.",
    "The garden is full of roses.",
    "Paul reads three books a week.",
    "The coffee tastes burnt.",
    "They built a boat.",
    "The lesson was hard but good.",
)


def answer(loaded: LoadedModel, subject: str, schema: dict[str, Any], *, grammar: bool) -> Trace:
    """Return the run of one question."""
    question = f"Answer in JSON that matches this schema: {json.dumps(schema)}\n{subject}"
    params: dict[str, Any] = {"max_new_tokens": 80}
    if grammar:
        params["structured_outputs"] = {"json": schema}
    messages = [{"role": "user", "content": question}]
    return decode_to_trace(DecodeRequest("greedy", loaded, messages=messages, params=params))


def is_valid(trace: Trace, schema: dict[str, Any]) -> bool:
    """Return whether an answer is JSON that matches the schema."""
    try:
        jsonschema.validate(json.loads(trace.outputs[0].text), schema)
    except (ValueError, jsonschema.ValidationError):
        return False
    return True


def count_changed(trace: Trace) -> int:
    """Return at how many steps the grammar removed the model's favourite."""
    return sum(
        any(one.rank == 0 and one.removed_by is not None for one in step.candidates)
        for step in trace.steps
    )


def mask_times(loaded: LoadedModel, trace: Trace, schema: dict[str, Any]) -> list[float]:
    """Return milliseconds of the mask at every step of a text, nothing being known of it before."""
    ends = loaded.eos_token_ids
    processor = make_grammar_processor({"json": schema}, loaded, trace.prompt_ids, ends)
    ids, found = trace.outputs[0].token_ids, []
    scores = torch.zeros(1, loaded.vocab_size)
    for count in range(len(ids)):
        so_far = torch.tensor([[*trace.prompt_ids, *ids[:count]]])
        began = time.perf_counter()
        processor(so_far, scores)
        found.append((time.perf_counter() - began) * 1000)
    return found


def measure(loaded: LoadedModel, subjects: int) -> list[Figure]:
    """Return the figures of all schemas."""
    figures, answers = list[Figure](), list[tuple[Trace, dict[str, Any]]]()
    for name, schema in SCHEMAS.items():
        free = [answer(loaded, one, schema, grammar=False) for one in SUBJECTS[:subjects]]
        bound = [answer(loaded, one, schema, grammar=True) for one in SUBJECTS[:subjects]]
        n = len(bound)
        tokens = sum(len(trace.steps) for trace in bound)
        figures += [
            Figure(
                f"{name}: valid answers without the grammar",
                [sum(is_valid(t, schema) for t in free)],
                n=n,
            ),
            Figure(
                f"{name}: valid answers with it", [sum(is_valid(t, schema) for t in bound)], n=n
            ),
            Figure(
                f"{name}: share of tokens where the model wanted a forbidden one",
                [sum(map(count_changed, bound)) / tokens],
                n=tokens,
            ),
        ]
        answers += [(trace, schema) for trace in bound]
    return [*figures, *measure_masks("SmolLM2", loaded, answers)]


def write_texts(loaded: LoadedModel, subjects: int) -> list[tuple[Trace, dict[str, Any]]]:
    """Return runs of Storyteller, which answers no questions, under the same schemas."""
    params: dict[str, Any] = {"max_new_tokens": 80}
    return [
        (
            decode_to_trace(
                DecodeRequest(
                    "greedy", loaded, one, params=params | {"structured_outputs": {"json": schema}}
                )
            ),
            schema,
        )
        for schema in SCHEMAS.values()
        for one in SUBJECTS[:subjects]
    ]


def measure_masks(
    name: str, loaded: LoadedModel, answers: list[tuple[Trace, dict[str, Any]]]
) -> list[Figure]:
    """Return what a mask costs in these answers, and the first mask of a new grammar."""
    times, steps = [], []
    for trace, schema in answers:
        times += mask_times(loaded, trace, schema)
        steps += _step_times(trace)
    share = [mask / statistics.median(steps) for mask in times]
    most = sorted(share)[int(len(share) * 0.99)]
    return [
        Figure(f"{name}: mask of a step, ms", times),
        Figure(f"{name}: mask as a share of a step", share),
        Figure(f"{name}: the same, 99 % of steps are below", [most], n=len(share)),
        Figure(f"{name}: first mask of a new grammar, ms", first_masks(loaded, answers[0][0])),
    ]


def first_masks(loaded: LoadedModel, trace: Trace) -> list[float]:
    """Return milliseconds from a new schema to its first mask, with its compilation, for 20 schemas."""
    found, scores = [], torch.zeros(1, loaded.vocab_size)
    prompt = torch.tensor([trace.prompt_ids])
    for number in range(20):
        schema = _object(**{f"{loaded.vocab_size}_{number}": _TEXT, "age": {"type": "integer"}})
        began = time.perf_counter()
        ends = loaded.eos_token_ids
        make_grammar_processor({"json": schema}, loaded, trace.prompt_ids, ends)(prompt, scores)
        found.append((time.perf_counter() - began) * 1000)
    return found


def _step_times(trace: Trace) -> list[float]:
    at = [step.elapsed_s for step in trace.steps]
    return [(b - a) * 1000 for a, b in itertools.pairwise(at)]


def measure_memory(runs: int) -> list[Figure]:
    """Return what every tenth of so many runs, each with another grammar, adds to the memory in use."""
    used = []
    for number in range(runs):
        # A new rule and new texts, so that nothing of an earlier grammar can be used again.
        pattern = f" [a-z]{{1,8}} (ball|doll) {number}\\."
        params = {"structured_outputs": {"regex": pattern}, "max_new_tokens": 6}
        decode_to_trace(DecodeRequest("greedy", prompt="Anna has a", params=params))
        if (number + 1) % max(1, runs // 10) == 0:
            gc.collect()
            used.append(_memory_mb())
    added = [b - a for a, b in itertools.pairwise(used)]
    return [
        Figure(f"memory after {runs} runs with {runs} grammars, MB", [used[-1]], n=runs),
        Figure("memory that each tenth of them adds, but for the first, MB", added),
        Figure(
            "memory that the second half of them adds, MB", [used[-1] - used[len(used) // 2 - 1]]
        ),
    ]


def _memory_mb() -> float:
    """Return the resident memory of this process and of its children."""
    pages = 0
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text().rpartition(") ")[2].split()
                own = int(folder.name) == os.getpid() or int(stat[1]) == os.getpid()
                pages += int((folder / "statm").read_text().split()[1]) if own else 0
            except OSError:  # ended meanwhile
                continue
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--subjects", type=int, default=len(SUBJECTS), help="0 measures none")
    parser.add_argument("--grammars", type=int, default=1000, help="0 measures no memory")
    arguments = parser.parse_args()
    figures: list[Figure] = []
    if arguments.subjects:
        install_model("smollm2", lambda what, done, total: None)
        figures += measure(load("smollm2"), arguments.subjects)
        storyteller = load("storyteller")
        texts = write_texts(storyteller, arguments.subjects)
        figures += measure_masks("Storyteller", storyteller, texts)
    if arguments.grammars:
        figures += measure_memory(arguments.grammars)
    for figure in figures:
        print(figure)
    tell("structured_output", figures)


if __name__ == "__main__":
    main()
