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
from collections.abc import Callable
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
TARGET_RATIO = 1.0
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


def main() -> None:
    """Print a card for people and one JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=60)
    arguments = parser.parse_args()
    target = load("storyteller")
    lengths: Settings = {"num_assistant_tokens": 6, "assistant_confidence_threshold": 0.0}
    cases: list[Callable[[], dict[str, Any]]] = []
    try:
        draft = load("storyteller-draft")
    except ModelError as error:
        print(f"embedded draft left out: {error}")
    else:
        cases.append(
            lambda: compare("speculative", "speculative", target, draft, lengths, arguments)
        )
    for layer in (4, 8, 12):
        own = lengths | {"assistant_early_exit": layer}
        cases.append(
            lambda own=own, layer=layer: compare(
                f"early exit {layer}", "early_exit", target, None, own, arguments
            )
        )
    results = [case() for case in cases]
    print(f"Assisted decoding against transformers' own, {torch.get_num_threads()} threads")
    for r in results:
        print(
            f"  {r['case']:14} {r['tokens_per_target_pass']:.2f} tokens per target pass, "
            f"{r['ratio_median']:.2f} times transformers' speed ({r['ratio_min']:.2f}–"
            f"{r['ratio_max']:.2f}, n={r['n']}), {r['speed_up_over_plain']:.2f} times plain decoding"
        )
    targets = {"tokens_per_target_pass": TARGET_TOKENS_PER_PASS, "ratio": TARGET_RATIO}
    print(json.dumps({"benchmark": "assisted", "targets": targets, "results": results}))


if __name__ == "__main__":
    main()
