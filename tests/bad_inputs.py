"""Bad requests, each with what its one sentence must name: the same table for engine, CLI and API."""

from __future__ import annotations

from typing import Any

NAN, INF = float("nan"), float("inf")

# (parameter, value, part of the allowed range)
SAMPLING: list[tuple[str, Any, str]] = [
    ("temperature", 0.0, "at least 0.001"),
    ("temperature", -1.0, "at least 0.001"),
    ("temperature", 1e-40, "at least 0.001"),
    ("temperature", 1e-8, "at least 0.001"),
    ("temperature", INF, "at most 100"),
    ("temperature", NAN, "at least 0.001"),
    ("temperature", "0.7", "a number"),
    ("temperature", True, "a number"),
    ("top_k", -1, "from 0"),
    ("top_k", 1.5, "whole number"),
    ("top_k", "5", "whole number"),
    ("top_k", True, "whole number"),
    ("top_p", 0.0, "above 0"),
    ("top_p", 1.5, "at most 1"),
    ("top_p", -0.1, "above 0"),
    ("top_p", NAN, "above 0"),
    ("top_p", "0.9", "a number"),
    ("min_p", 1.5, "at most 1"),
    ("min_p", -0.1, "at least 0"),
    ("min_p", NAN, "at least 0"),
    ("typical_p", 0.0, "above 0"),
    ("typical_p", 1.5, "at most 1"),
    ("typical_p", NAN, "above 0"),
    ("epsilon_cutoff", -1, "at least 0"),
    ("epsilon_cutoff", 1.0, "below 1"),
    ("epsilon_cutoff", NAN, "below 1"),
    ("eta_cutoff", -1, "at least 0"),
    ("eta_cutoff", 1.0, "below 1"),
    ("eta_cutoff", NAN, "below 1"),
    ("top_h", 0, "above 0"),
    ("top_h", 1.5, "at most 1"),
    ("top_h", NAN, "above 0"),
    ("do_sample", "False", "true or false"),
    ("do_sample", 1, "true or false"),
    ("do_sample", False, "always"),
]

LENGTH: list[tuple[str, Any, str]] = [
    ("max_new_tokens", 0, "from 1"),
    ("max_new_tokens", -5, "from 1"),
    ("max_new_tokens", 1.5, "whole number"),
    ("max_new_tokens", "8", "whole number"),
    ("max_new_tokens", True, "whole number"),
    ("max_new_tokens", 10**6, "to 512"),
    ("max_new_tokens", 10**18, "to 512"),
    ("max_new_tokens", None, "from 1"),
    ("max_length", 0, "no such parameter"),
    ("min_new_tokens", 500, "at most max_new_tokens"),
    ("max_time", 0, "above 0"),
    ("max_time", -1, "above 0"),
    ("max_time", NAN, "above 0"),
    ("max_time", "x", "a number"),
    ("stop_strings", [""], "1 to 64 characters"),
    ("stop_strings", ["x"] * 2000, "up to 8"),
    ("stop_strings", 5, "a list"),
    ("repetition_penalty", 0, "at least 0.5"),
    ("repetition_penalty", -1, "at least 0.5"),
    ("repetition_penalty", NAN, "at least 0.5"),
    ("repetition_penalty", INF, "at most 5"),
    ("repetition_penalty", 1e9, "at most 5"),
    ("repetition_penalty", 1e-9, "at least 0.5"),
    ("no_repeat_ngram_size", -1, "from 0"),
    ("no_repeat_ngram_size", 2.0, "whole number"),
    ("exponential_decay_length_penalty", (5,), "a pair"),
    ("exponential_decay_length_penalty", "a", "a pair"),
    ("exponential_decay_length_penalty", (0, NAN), "a pair"),
    ("exponential_decay_length_penalty", (0, 1e30), "a pair"),
    ("num_return_sequences", 0, "from 1"),
    ("num_return_sequences", -1, "from 1"),
    ("num_return_sequences", 100_000, "from 1"),
    ("guidance_scale", NAN, "a number"),
    ("guidance_scale", INF, "a number"),
    ("guidance_scale", "2", "a number"),
    ("negative_prompt", "", "1 to 8000"),
    ("negative_prompt_ids", [[1], [2]], "token ids"),
]

TOKENS: list[tuple[str, Any, str]] = [
    ("bad_words_ids", [], "1 to 64 entries"),
    ("bad_words_ids", "abc", "a list"),
    ("bad_words_ids", [[-1]], "token ids"),
    ("bad_words_ids", [[]], "1 to 64 token ids"),
    ("bad_words_ids", [[99_999]], "from 0 to"),
    ("suppress_tokens", [99_999], "from 0 to"),
    ("suppress_tokens", [-1], "token ids"),
    ("suppress_tokens", ["a"], "token ids"),
    ("begin_suppress_tokens", [99_999], "from 0 to"),
    ("forced_eos_token_id", 99_999, "from 0 to"),
    ("forced_bos_token_id", 99_999, "from 0 to"),
    ("eos_token_id", 99_999, "from 0 to"),
    ("eos_token_id", 1.5, "token ids"),
    ("eos_token_id", -1, "token ids"),
    ("eos_token_id", "x", "token ids"),
    ("sequence_bias", [[[5], NAN]], "finite bias"),
    ("sequence_bias", [], "1 to 64 pairs"),
    ("sequence_bias", [[[], 1.0]], "token ids"),
    ("cache_implementation", "paged", "no such parameter"),
    ("cache_implementation", "offloaded", "no such parameter"),
    ("prefill_chunk_size", 0, "no such parameter"),
    ("compile_config", {}, "no such parameter"),
    ("foo", 1, "no such parameter"),
    ("custom_generate", "evil/repo", "no such parameter"),
    ("trust_remote_code", True, "no such parameter"),
    ("__class__", "x", "no such parameter"),
]

PARAMS = [*SAMPLING, *LENGTH, *TOKENS]
PROMPTS: list[tuple[Any, str]] = [
    ("", "1 to 8000 characters"),
    (None, "prompt"),
    (5, "text"),
    ({}, "text"),
    ({"a": 1}, "text"),
    ("half \ud83d pair", "surrogate"),
    ("a" * 1_000_000, "8000 characters"),
]
SEEDS: list[Any] = [-1, 2**63, 1.5, "7", True, None, NAN]


def label(value: Any) -> str:
    """Return a short test id of a value."""
    return repr(value)[:24].encode("ascii", "replace").decode()
