"""What recording costs: tokens per second with every step recorded over plain generate().

Both sides decode the same tokens greedily in one process, interleaved A B A B, so that a noisy
machine disturbs both alike. A ratio of 1 means that recording is free.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import time
from functools import partial
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.timing import timed
from engine import DecodeRequest, LoadedModel, decode, load
from engine.aside import aside
from engine.errors import ModelError
from engine.trace import json_io
from engine.trace.events import Finished

TARGET_RATIO = 0.95


def random_135m() -> LoadedModel:
    """Return a random Llama of SmolLM2-135M's shape."""
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=576,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        intermediate_size=1536,
        vocab_size=49_152,
        bos_token_id=None,
        eos_token_id=None,
    )
    return LoadedModel(LlamaForCausalLM(config).eval(), None, "random-135M")


def recorded(loaded: LoadedModel, ids: list[int], tokens: int) -> tuple[float, Any]:
    """Return tokens per second of decode() and its trace."""
    request = DecodeRequest(
        "greedy",
        loaded,
        input_ids=ids,
        params={"max_new_tokens": tokens, "min_new_tokens": tokens - 1},
    )
    started = time.perf_counter()
    last = list(decode(request))[-1]
    seconds = time.perf_counter() - started
    assert isinstance(last, Finished), last
    return tokens / seconds, last.trace


def plain(loaded: LoadedModel, ids: list[int], tokens: int) -> tuple[float, list[int]]:
    """Return tokens per second of model.generate() and its new tokens."""
    prompt = torch.tensor([ids])
    generate = partial(
        loaded.model.generate,
        prompt,
        attention_mask=torch.ones_like(prompt),
        do_sample=False,
        max_new_tokens=tokens,
        min_new_tokens=tokens - 1,
    )
    seconds, out = timed(generate)
    return tokens / seconds, out[0, len(ids) :].tolist()


def compare(loaded: LoadedModel, tokens: int, rounds: int) -> dict[str, Any]:
    """Interleave both and return the ratios' median and spread."""
    ids = [5, 9, 11, 4, 20, 7]
    recorded(loaded, ids, 4), plain(loaded, ids, 4)
    ratios, speeds, trace = [], [], None
    for _ in range(rounds):
        ours, trace = recorded(loaded, ids, tokens)
        theirs, expected = plain(loaded, ids, tokens)
        assert list(trace.outputs[0].token_ids) == expected
        ratios.append(ours / theirs)
        speeds.append((ours, theirs))
    packed = len(gzip.compress(json_io.dumps(trace).encode()))
    return {
        "model": loaded.name,
        "tokens": tokens,
        "n": rounds,
        "ratio_median": round(statistics.median(ratios), 3),
        "ratio_min": round(min(ratios), 3),
        "ratio_max": round(max(ratios), 3),
        "recorded_tokens_per_s": round(statistics.median(s[0] for s in speeds), 1),
        "plain_tokens_per_s": round(statistics.median(s[1] for s in speeds), 1),
        "trace_gzip_bytes": packed,
    }


def main() -> None:
    """Print a card for people and one JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--tokens", type=int, default=60)
    arguments = parser.parse_args()
    models = [aside(random_135m)]
    try:
        models.insert(0, load("storyteller"))
    except ModelError as error:
        print(f"embedded target left out: {error}")
    results = [compare(model, arguments.tokens, arguments.rounds) for model in models]
    print(
        f"Recording 20 candidates against generate() without recording, {torch.get_num_threads()} threads"
    )
    for r in results:
        print(
            f"  {r['model']:14} ratio {r['ratio_median']:.3f} ({r['ratio_min']:.3f}–{r['ratio_max']:.3f}, "
            f"n={r['n']}), {r['recorded_tokens_per_s']} against {r['plain_tokens_per_s']} tokens/s, "
            f"trace of {r['tokens']} steps {r['trace_gzip_bytes'] / 1000:.0f} kB gzip"
        )
    print(json.dumps({"benchmark": "recording", "target_ratio": TARGET_RATIO, "results": results}))


if __name__ == "__main__":
    main()
