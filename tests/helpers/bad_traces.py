"""Traces that must be refused: (change to a trace's JSON, what the sentence says)."""

from __future__ import annotations

import gzip
from typing import Any


def put(*path_and_value: Any) -> Any:
    """Return a change that sets one place."""
    *path, last, value = path_and_value

    def change(data: Any) -> None:
        for key in path:
            data = data[key]
        data[last] = value

    return change


def repeat_a_step(data: Any) -> None:
    data["steps"].insert(1, data["steps"][1])


def drop_a_step(data: Any) -> None:
    del data["steps"][2]


def many_steps(data: Any) -> None:
    bare = {"index": 0, "keep": 0, "emit": data["steps"][0]["emit"]}
    data["steps"] = [bare] * 20_001


def twice(data: Any) -> None:
    candidates = data["steps"][0]["candidates"]
    candidates[-1]["token_id"] = candidates[0]["token_id"]


def sum_above_one(data: Any) -> None:
    for candidate in data["steps"][0]["candidates"]:
        candidate["raw_logprob"] = -0.5


def many_candidates(data: Any) -> None:
    data["steps"][0]["candidates"] *= 40


# Of a run of ``sampling`` with at least four steps.
CHANGES = [
    (put("schema", "decoding-trace/0"), "decoding-trace/1"),
    (put("schema", 1), "decoding-trace/1"),
    (put("schema", "decoding-trace/3"), "schema 'decoding-trace/3'"),
    (put("seed", 10**30), "too large"),
    (put("steps", 0, "detail", "kind", ["draw"]), "unknown kind"),
    (put("constructor", {}), "unknown field 'constructor'"),
    (put("steps", 0, "__proto__", {}), "unknown field '__proto__'"),
    (put("steps", 0, "candidates", 0, "html", "<b>"), "unknown field 'html'"),
    (put("strategy", 7), "trace.strategy must be text"),
    (put("config", []), "trace.config must be an object"),
    (put("versions", "torch", 2), "must be text"),
    (put("versions", "\n\U000ea177", 2), "trace.versions['\\n\\U000ea177'] must be text"),
    (put("prompt", 5), "trace.prompt must be text"),
    (put("prompt_ids", [1.5]), "must be a whole number"),
    (put("model", "id", None), "must"),
    (put("model", "layers", "six"), "must be a whole number"),
    (put("outputs", 0, "text", 3), "must be text"),
    (put("outputs", 0, "token_ids", "5"), "must be a list"),
    (put("steps", None), "must be a list"),
    (put("steps", 1, None), "must be an object"),
    (put("steps", 1, "emit", ["5"]), "must be a whole number"),
    (put("steps", 1, "emit", [True]), "must be a whole number"),
    (put("steps", 1, "sequence", -1), "Step 1 keeps"),
    (put("steps", 1, "forward_passes", -1), "negative"),
    (put("steps", 1, "logsumexp", None), "lacks its entropy or logsumexp"),
    (put("steps", 1, "candidates", 0, "processed_logprob", 0.5), "probability above 1"),
    (put("steps", 1, "stages", 0, "kept", -3), "impossible numbers"),
    (put("steps", 1, "stages", 0, "entropy", None), "stages[0].entropy must be a number"),
    (put("steps", 1, "detail", {}), "unknown kind"),
    (put("steps", 1, "detail", "racers", 0, "probability", 1.5), "Step 1 has a probability of 1.5"),
    (put("steps", 1, "detail", "racers", 0, "probability", None), "must be a number"),
    (put("steps", 1, "detail", "racers", 0, "token_id", 5000), "Step 1 detail: token id 5000"),
    (put("steps", 1, "detail", "racers", {}), "must be a list"),
    (put("metrics", {"perplexity": "low"}), "must be a number"),
    (put("pieces", {"-5": "x"}), "no token id"),
    (put("pieces", {"99999999999": "x"}), "no token id"),
    (put("pieces", "5", 5), "must be text"),
    (put("eos_token_ids", [None]), "must be a whole number"),
    (put("notes", "x"), "must be a list"),
    (repeat_a_step, "Step 2 carries the index 1"),
    (drop_a_step, "Step 2 carries the index 3"),
    (many_steps, "at most 20000"),
    (sum_above_one, "sum to more than 1"),
    (many_candidates, "more than 200 candidates"),
    (put("seed", -1), "trace.seed = -1 is not allowed"),
    (put("seed", 2**63), "trace.seed = 9223372036854775808 is not allowed"),
    (put("model", "vocab_size", -1), "negative vocab_size"),
    (put("steps", 0, "candidates", 0, "rank", -1), "negative rank"),
    (twice, "the same candidate twice"),
    (put("outputs", 0, "text", "I was never written."), "is not the text of its tokens"),
    (put("outputs", 0, "text", "\ud800"), "lone surrogate"),
    (put("config", "stop_strings", "\ud800"), "lone surrogate"),
    (put("config", "top_k", 10**400), "not finite or too large"),
]
# Of runs of other strategies on the tiny models: (strategy, change, what the sentence says).
_POOL = ("steps", 1, "detail", "pool")
OTHER_CHANGES = [
    ("beam_search", put(*_POOL, 0, "parent_id", 10**6), "before its parent"),
    ("beam_search", put(*_POOL, 0, "parent_id", -1), "which the step before did not keep"),
    ("beam_search", put(*_POOL, 1, "node_id", -7), "before its parent"),
    ("beam_search", put(*_POOL, 0, "logprob", -0.001), "not the sum of its path"),
    ("beam_search", put(*_POOL, 0, "logprob", None), "log-probability that is not finite"),
    ("beam_search", put(*_POOL, 0, "sum_logprobs", None), "sum_logprobs must be a number"),
    ("beam_search", put(*_POOL, 0, "score", 5.0), "length ** length_penalty"),
    ("beam_search", put(*_POOL, 0, "fate", "resurrected"), "that means nothing here"),
    ("beam_search", put(*_POOL, 0, "token_id", 5000), "token id 5000"),
    ("beam_search", put(*_POOL, 0, "penalised_by", [0.5]), "must be a whole number"),
    ("beam_search", put("config", "num_beams", 1), "keeps"),
    ("beam_search", put("config", "num_beams", "3"), "config.num_beams is no number"),
    ("beam_search", put("config", "num_beams", True), "config.num_beams is no number"),
    ("beam_search", put("config", "length_penalty", 10**30), "config.length_penalty is no number"),
    ("beam_search", put("config", "length_penalty", None), "config.length_penalty is no number"),
    ("beam_search", put("config", "num_beam_groups", 3), "not the number of groups"),
    ("beam_search", put("config", {}), "lacks num_beams"),
    ("beam_search", put("outputs", 0, "token_ids", [5, 5]), "outputs[0]"),
    ("beam_search", put("outputs", 0, "score", "high"), "score must be a number"),
    ("contrastive_search", put("steps", 1, "detail", "chosen", 64), "chose candidate 64"),
    ("contrastive_search", put("steps", 1, "detail", "chosen", -1), "chose candidate -1"),
    (
        "contrastive_search",
        put("steps", 1, "detail", "options", 0, "position", 10**6),
        "compares with position",
    ),
    (
        "contrastive_search",
        put("steps", 1, "detail", "options", 0, "position", -1),
        "compares with position -1",
    ),
    (
        "contrastive_search",
        put("steps", 1, "detail", "options", 0, "score", None),
        "score must be a number",
    ),
    ("contrastive_search", put("prompt_ids", []), "compares with position"),
    ("contrastive_search", put("metrics", "rep_3", None), "rep_3] must be a number"),
    ("dola", put("steps", 1, "detail", "layers", []), "every step must have the same"),
    ("dola", put("steps", 1, "detail", "layers", 2, "layer", 5), "do not count"),
    ("dola", put("steps", 1, "detail", "layers", 2, "entropy", None), "entropy must be a number"),
    ("dola", put("steps", 1, "detail", "layers", 2, "top", 0, 0, 5000), "token id 5000"),
    ("dola", put("steps", 1, "detail", "layers", 2, "top", 0, [5]), "must hold 2 values"),
    ("dola", put("steps", 1, "detail", "contrast_top", 0, 1, None), "must be a number"),
    ("dola", put("steps", 1, "detail", "layers", 2, "normed_logprob", 10**6), "above 1"),
    ("dola", put("steps", 1, "detail", "final_top", []), "which tokens were the most probable"),
    ("dola", put("steps", 1, "detail", "contrast_top", []), "which tokens were the most probable"),
    ("dola", put("steps", 1, "detail", "premature_layer", 99), "contrasts layer 99"),
    ("dola", put("steps", 1, "detail", "candidate_layers", [-1]), "contrasts layer -1"),
    ("prompt_lookup", put("steps", 0, "detail", "draft_s", -1), "negative time"),
    ("prompt_lookup", put("steps", 0, "detail", "verify_s", None), "must be a number"),
    ("prompt_lookup", put("steps", 0, "detail", "final_token_id", 5000), "token id 5000"),
    ("prompt_lookup", put("steps", 0, "detail", "match", [1, 2]), "must hold 3 values"),
    ("prompt_lookup", put("steps", 0, "detail", "tokens", "5"), "must be a list"),
    ("prompt_lookup", put("steps", -1, "detail", "report", "plain_tokens", 9), "in no time"),
    ("prompt_lookup", put("steps", -1, "detail", "report", "plain_tokens", -1), "in no time"),
    ("watermark", put("steps", 1, "detail", "green_fraction", 1.5), "no probability"),
    ("watermark", put("steps", 1, "detail", "expected", 0), "expected share"),
    ("watermark", put("steps", 1, "detail", "chance", 1), "expected share"),
    ("watermark", put("steps", 1, "detail", "g_values", [2]), "neither 0 nor 1"),
    ("watermark", put("steps", 1, "detail", "is_green", "yes"), "must be true or false"),
    ("watermark", put("steps", 1, "detail", "bias", None), "bias must be a number"),
    ("watermark", put("config", "z_threshold", "3"), "config.z_threshold is no number"),
    (
        "speculative",
        put("config", "assistant_ensemble_weight", "0.5"),
        "config.assistant_ensemble_weight is no number",
    ),
    ("watermark", put("config", "top_k", 1e300), "too large"),
    ("watermark", put("steps", 1, "detail", "kind", {"kind": "draw"}), "unknown kind"),
    ("watermark", put("steps", 1, "detail", "kind", "beam"), "unknown field"),
]
_WHOLE = gzip.compress(bytes(range(256)) * 20, mtime=0)
DAMAGED = _WHOLE[:40] + bytes(255 - byte for byte in _WHOLE[40:60]) + _WHOLE[60:]
RAW = [
    (b'"trace"', "JSON object"),
    (b"7", "JSON object"),
    (b"{]", "not valid JSON"),
    (b"{'a': 1}", "not valid JSON"),
    (b'{"schema": "decoding-trace/1"}', "lacks the field"),
    (b'{"schema": "decoding-trace/1", "schema": "decoding-trace/1"}', "occurs twice"),
    (b'{"a": -Infinity}', "Infinity"),
    (b'{"a": -1e999}', "not finite"),
    (b'{"a":' * 100_000, "nests deeper"),
    (b"PK\x03\x04" + b"\x00" * 40, "not JSON in UTF-8"),
    (b'{"a": "\xed\xa0\x80"}', "not UTF-8"),
    (gzip.compress(b"{}")[:-6], "not valid gzip"),
    (gzip.compress(b"not json"), "not valid JSON"),
    (DAMAGED, "not valid gzip"),
]
