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


def sum_above_one(data: Any) -> None:
    for candidate in data["steps"][0]["candidates"]:
        candidate["raw_logprob"] = -0.5


def many_candidates(data: Any) -> None:
    data["steps"][0]["candidates"] *= 40


# Of a run of ``sampling`` with at least four steps.
CHANGES = [
    (put("schema", "decoding-trace/0"), "decoding-trace/1"),
    (put("schema", 1), "decoding-trace/1"),
    (put("constructor", {}), "unknown field 'constructor'"),
    (put("steps", 0, "__proto__", {}), "unknown field '__proto__'"),
    (put("steps", 0, "candidates", 0, "html", "<b>"), "unknown field 'html'"),
    (put("strategy", 7), "trace.strategy must be text"),
    (put("config", []), "trace.config must be an object"),
    (put("versions", "torch", 2), "must be text"),
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
    (put("steps", 1, "logsumexp", None), "logsumexp is not a finite number"),
    (put("steps", 1, "candidates", 0, "processed_logprob", 0.5), "probability above 1"),
    (put("steps", 1, "stages", 0, "kept", -3), "impossible numbers"),
    (put("steps", 1, "stages", 0, "entropy", None), "impossible numbers"),
    (put("steps", 1, "detail", {}), "unknown kind"),
    (put("steps", 1, "detail", "racers", 0, "probability", 1.5), "Step 1 has a probability of 1.5"),
    (put("steps", 1, "detail", "racers", 0, "probability", None), "no probability"),
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
]
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
    (b"PK\x03\x04" + b"\x00" * 40, "not valid JSON"),
    (b'{"a": "\xed\xa0\x80"}', "not UTF-8"),
    (gzip.compress(b"{}")[:-6], "not valid gzip"),
    (gzip.compress(b"not json"), "not valid JSON"),
]
