"""What each kind of model server is sent: one request body per interface, with every sampler value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.sources.endpoint_address import EndpointAddress

ChatMessages = Sequence[Mapping[str, Any]]
_NO_PENALTIES = {"presence_penalty": 0.0, "frequency_penalty": 0.0}
_WHOLE_TEXT = 100_000
"""Tokens that a penalty looks back: newer versions of llama.cpp refuse -1 for all."""
LARGEST_SEED = 2**31 - 1
"""llama.cpp reads 2**32 - 1 as a random seed, and others take numbers with a sign only."""


@dataclass(frozen=True, slots=True)
class SamplerValues:
    """Every value of a server's sampler: a server replaces what is not sent by its defaults."""

    temperature: float = 0.0
    top_k: int = 0
    """0 is off."""
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Completion:
    """A completion to ask for.

    Attributes:
        model: the model's name on the server.
        ids: prompt as token ids; empty for a server that takes texts only.
        prompt: prompt as text.
        messages: a conversation in place of both.
        new_tokens: most new tokens.
        candidates: number of candidates to list for each token.
        sampler: values of the sampler.
        stop: texts that end the answer.
        prompt_logprobs: whether to ask for the probabilities of the prompt's tokens.
        allowed_ids: the only tokens that may be chosen; empty for all. Only vLLM is sent it.
    """

    model: str
    ids: tuple[int, ...] = ()
    prompt: str | None = None
    messages: ChatMessages | None = None
    new_tokens: int = 1
    candidates: int = 5
    sampler: SamplerValues = SamplerValues()
    stop: tuple[str, ...] = ()
    prompt_logprobs: bool = False
    allowed_ids: tuple[int, ...] = ()


class Dialect:
    """One kind of server: its paths, and the bodies of its requests.

    Attributes:
        server: one of SERVERS of a trace.
        candidates: numbers of candidates to try, largest first.
        sends: the fields of SamplerValues that its interface has.
        takes_ids: whether a prompt may be token ids.
        lists_ids: whether to ask for candidates as ids in place of texts.
    """

    server = "unknown"
    candidates: tuple[int, ...] = (20, 5)
    sends = frozenset(("temperature", "top_p", "seed"))
    takes_ids = False
    lists_ids = False

    def __init__(self, address: EndpointAddress) -> None:
        # A base address may end with the version of OpenAI's interface; native ones are above it.
        self.root = address.path.removesuffix("/v1")
        self.base = address.path or "/v1"

    def request(self, asked: Completion, *, stream: bool) -> tuple[str, dict[str, Any]]:
        """Return the path and the body of a completion."""
        body = {
            "model": asked.model,
            "max_tokens": asked.new_tokens,
            "temperature": asked.sampler.temperature,
            "top_p": asked.sampler.top_p,
            "seed": asked.sampler.seed,
            **_NO_PENALTIES,
            **({"stop": list(asked.stop)} if asked.stop else {}),
            **_stream_fields(stream),
        }
        if asked.messages is not None:
            shown = {"logprobs": True, "top_logprobs": asked.candidates}
            return f"{self.base}/chat/completions", body | shown | {"messages": [*asked.messages]}
        shown = {"logprobs": min(asked.candidates, 5), "prompt": asked.prompt}
        return f"{self.base}/completions", body | shown


class Vllm(Dialect):
    """vLLM's interface of completions, which takes and gives token ids."""

    server = "vllm"
    sends = frozenset(SamplerValues.__slots__)
    takes_ids = True

    def request(self, asked: Completion, *, stream: bool) -> tuple[str, dict[str, Any]]:
        sampler = asked.sampler
        return f"{self.base}/completions", {
            "model": asked.model,
            "prompt": list(asked.ids),
            "max_tokens": asked.new_tokens,
            "temperature": sampler.temperature,
            "top_k": sampler.top_k or -1,
            "top_p": sampler.top_p,
            "min_p": sampler.min_p,
            "repetition_penalty": sampler.repetition_penalty,
            "seed": sampler.seed,
            **_NO_PENALTIES,
            "logprobs": asked.candidates,
            "return_token_ids": True,
            "return_tokens_as_token_ids": self.lists_ids,
            "skip_special_tokens": False,
            **({"prompt_logprobs": 1} if asked.prompt_logprobs else {}),
            **({"allowed_token_ids": list(asked.allowed_ids)} if asked.allowed_ids else {}),
            **({"stop": list(asked.stop)} if asked.stop else {}),
            **_stream_fields(stream),
        }


class LlamaCpp(Dialect):
    """llama.cpp's native interface, which lists as many candidates as are asked for."""

    server = "llamacpp"
    candidates = (100,)
    sends = frozenset(SamplerValues.__slots__)
    takes_ids = True

    def request(self, asked: Completion, *, stream: bool) -> tuple[str, dict[str, Any]]:
        return f"{self.root}/completion", {
            "prompt": list(asked.ids),
            "n_predict": asked.new_tokens,
            **_llamacpp_sampler(asked.sampler),
            "typical_p": 1.0,
            "top_n_sigma": -1.0,
            "xtc_probability": 0.0,
            "dry_multiplier": 0.0,
            "dynatemp_range": 0.0,
            "mirostat": 0,
            # transformers applies its filters in this order.
            "samplers": ["penalties", "temperature", "top_k", "top_p", "min_p"],
            "n_probs": asked.candidates,
            "post_sampling_probs": False,
            "return_tokens": True,
            "cache_prompt": True,
            "stop": list(asked.stop),
            "stream": stream,
        }


class Ollama(Dialect):
    """Ollama's native interface, by its documentation."""

    server = "ollama"
    candidates = (20,)
    sends = frozenset(SamplerValues.__slots__)

    def request(self, asked: Completion, *, stream: bool) -> tuple[str, dict[str, Any]]:
        options = {
            "num_predict": asked.new_tokens,
            **_llamacpp_sampler(asked.sampler),
            **({"stop": list(asked.stop)} if asked.stop else {}),
        }
        body = {
            "model": asked.model,
            "stream": stream,
            "logprobs": True,
            "top_logprobs": asked.candidates,
            "options": options,
        }
        if asked.messages is not None:
            return f"{self.root}/api/chat", body | {"messages": [*asked.messages]}
        # Raw: otherwise the server puts its chat template around the prompt.
        return f"{self.root}/api/generate", body | {"prompt": asked.prompt, "raw": True}


def _llamacpp_sampler(sampler: SamplerValues) -> dict[str, Any]:
    """Return a sampler in the names of llama.cpp, which are also those of Ollama."""
    return {
        "temperature": sampler.temperature,
        "top_k": sampler.top_k,
        "top_p": sampler.top_p,
        "min_p": sampler.min_p,
        "repeat_penalty": sampler.repetition_penalty,
        "repeat_last_n": _WHOLE_TEXT,
        "seed": sampler.seed,
        **_NO_PENALTIES,
    }


def _stream_fields(stream: bool) -> dict[str, Any]:
    return {"stream": True, "stream_options": {"include_usage": True}} if stream else {}


DIALECTS: dict[str, type[Dialect]] = {
    kind.server: kind for kind in (LlamaCpp, Vllm, Ollama, Dialect)
}
"""Kind of server -> what it is sent."""
