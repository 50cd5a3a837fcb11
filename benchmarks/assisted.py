"""Assisted decoding: our recording loop against transformers' own assisted generation.

Both decode the same prompts greedily with the same draft and settings in one process, interleaved
A B A B. Plain decoding of the same prompt is measured beside them: it says whether drafting pays on
this machine at all. Tokens per target pass does not depend on the machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from functools import partial
from typing import Any

import torch

from benchmarks.timing import timed
from engine import DecodeRequest, LoadedModel, Trace, decode, load
from engine.errors import ModelError
from engine.trace.events import Finished

PROMPTS = (
    "Once upon a time, there was a little girl named Lily. She",
    "One day, a little dog went to the park with his friend. They",
    "Tom and his mom were in the kitchen. Tom wanted to",
)
TARGET_TOKENS_PER_PASS = 2.5
TARGET_RATIO = 1.05
LENGTHS: dict[str, Any] = {"num_assistant_tokens": 6, "assistant_confidence_threshold": 0.0}
LOOKUP: dict[str, Any] = {"prompt_lookup_num_tokens": 10, "max_matching_ngram_size": 2}
EXITS = {"storyteller": (4, 8, 12), "smollm2": (15,)}
"""Layers after which the draft leaves, by model."""
Settings = dict[str, Any]


def ours(
    strategy: str, target: LoadedModel, draft: LoadedModel | None, prompt: str, params: Settings
) -> tuple[float, Trace]:
    """Return seconds of the whole of decode(), worker thread and lossless check included."""
    request = DecodeRequest(strategy, target, prompt=prompt, params=params, assistant=draft)
    started = time.perf_counter()
    last = list(decode(request))[-1]
    seconds = time.perf_counter() - started
    assert isinstance(last, Finished), last
    return seconds, last.trace


def theirs(
    target: LoadedModel, draft: LoadedModel | None, prompt: str, tokens: int, settings: Settings
) -> tuple[float, list[int]]:
    """Return seconds of transformers' generate() and its new tokens."""
    ids = target.tokenizer(prompt, return_tensors="pt")
    owner = (draft or target).model.generation_config
    kept = {name: getattr(owner, name) for name in settings}
    extra: Settings = {} if draft is None else {"assistant_model": draft.model}
    if "assistant_early_exit" in settings:
        extra["assistant_early_exit"] = settings["assistant_early_exit"]
    try:
        for name, value in settings.items():
            if name != "assistant_early_exit":
                setattr(owner, name, value)
        generate = partial(
            target.model.generate,
            ids["input_ids"],
            attention_mask=ids["attention_mask"],
            do_sample=False,
            max_new_tokens=tokens,
            **extra,
        )
        seconds, out = timed(generate)
    finally:
        for name, value in kept.items():
            setattr(owner, name, value)
    return seconds, out[0, ids["input_ids"].shape[1] :].tolist()


def compare(
    name: str,
    strategy: str,
    target: LoadedModel,
    draft: LoadedModel | None,
    settings: Settings,
    arguments: argparse.Namespace,
) -> dict[str, Any]:
    """Interleave ours, transformers' and plain decoding over all prompts.

    ``ratio`` compares generate() with our loop inside it; ``whole_ratio`` with all of decode().
    """
    params = settings | {"max_new_tokens": arguments.tokens}
    plain = {"max_new_tokens": arguments.tokens}
    ratios, whole, gains, per_pass = [], [], [], []
    for number in range(arguments.rounds + 1):
        for prompt in PROMPTS:
            mine_s, trace = ours(strategy, target, draft, prompt, params)
            native_s, tokens = theirs(target, draft, prompt, arguments.tokens, settings)
            _, alone = ours("greedy", target, None, prompt, plain)
            made = list(trace.outputs[0].token_ids)
            assert made == tokens == list(alone.outputs[0].token_ids)
            if number:  # the first round warms everything up
                loop_s = trace.steps[-1].elapsed_s
                ratios.append(native_s / loop_s)
                whole.append(native_s / mine_s)
                gains.append(alone.steps[-1].elapsed_s / loop_s)
                per_pass.append(len(made) / len(trace.steps))
    return {
        "case": name,
        "n": len(ratios),
        "tokens_per_target_pass": _median(per_pass),
        "ratio_median": _median(ratios),
        "ratio_min": round(min(ratios), 3),
        "ratio_max": round(max(ratios), 3),
        "whole_ratio_median": _median(whole),
        "speed_up_over_plain": _median(gains),
    }


def _median(values: list[float]) -> float:
    return round(statistics.median(values), 3)


def compare_all(name: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the results of every strategy that a model can be decoded with here.

    Raises:
        ModelError: it cannot be had.
    """
    target = load(name)
    cases: list[tuple[str, str, LoadedModel | None, Settings]] = [
        ("prompt lookup", "prompt_lookup", None, LOOKUP)
    ]
    if name == "storyteller":
        try:
            cases.insert(0, ("speculative", "speculative", load("storyteller-draft"), LENGTHS))
        except ModelError as error:
            print(f"embedded draft left out: {error}")
    for layer in EXITS[name]:
        own = LENGTHS | {"assistant_early_exit": layer}
        cases.append((f"early exit {layer}", "early_exit", None, own))
    return [
        {"model": name} | compare(case, strategy, target, draft, settings, arguments)
        for case, strategy, draft, settings in cases
    ]


def main() -> None:
    """Print a card for people and one JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=60)
    parser.add_argument("--models", nargs="+", choices=EXITS, default=list(EXITS))
    arguments = parser.parse_args()
    results: list[dict[str, Any]] = []
    for name in arguments.models:
        try:
            results += compare_all(name, arguments)
        except ModelError as error:
            print(f"{name} left out: {error}")
    print(f"Assisted decoding against transformers' own, {torch.get_num_threads()} threads")
    for r in results:
        print(
            f"  {r['model']:12} {r['case']:14} {r['tokens_per_target_pass']:.2f} tokens per target pass, "
            f"{r['ratio_median']:.2f} times transformers' speed ({r['ratio_min']:.2f}–"
            f"{r['ratio_max']:.2f}, n={r['n']}; {r['whole_ratio_median']:.2f} with the check against "
            f"the target), {r['speed_up_over_plain']:.2f} times plain decoding"
        )
    targets = {"tokens_per_target_pass": TARGET_TOKENS_PER_PASS, "ratio": TARGET_RATIO}
    print(json.dumps({"benchmark": "assisted", "targets": targets, "results": results}))


if __name__ == "__main__":
    main()
