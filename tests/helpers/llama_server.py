"""Servers of token ids for tests, whose distributions a test gives, and that of llama.cpp's interface."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from engine.models.loading import LoadedModel
from engine.models.text import tokenize_text
from tests.helpers.model_server import (
    Answer,
    Asked,
    FakeServer,
    Reply,
    serve_models,
    to_events,
)

END_ID = 0
WORDS = ("", *(f" w{n}" for n in range(1, 40)))
Distribution = Callable[[Sequence[int]], Sequence[float]]


def some_logprobs(ids: Sequence[int]) -> list[float]:
    """Return log-probabilities that depend on the last ids, as a small model's would."""
    at = sum((n + 1) * i for n, i in enumerate(ids[-3:]))
    scores = [
        3 * math.sin(1.7 * at + 0.9 * n) - (8 if n == END_ID else 0) for n in range(len(WORDS))
    ]
    total = math.log(math.fsum(map(math.exp, scores)))
    return [score - total for score in scores]


def distribution_of(loaded: LoadedModel, warmth: float = 1.0) -> Distribution:
    """Return the distributions of a model on this machine, at a temperature."""

    def logprobs(ids: Sequence[int]) -> list[float]:
        with torch.no_grad():
            logits = loaded.model(torch.tensor([list(ids)])).logits[0, -1]
        return (logits.double() / warmth).log_softmax(-1).tolist()

    return logprobs


def llama_of(loaded: LoadedModel, warmth: float = 1.0, most: int = 10) -> Llama:
    """Return a server of a model on this machine, with its tokenizer."""
    special = {i: loaded.pieces[i] for i in loaded.pieces.special}
    words = ["" if i in special else loaded.pieces[i] for i in range(loaded.vocab_size)]
    assert loaded.tokenizer is not None
    split = partial(tokenize_text, loaded.tokenizer)
    distribution = distribution_of(loaded, warmth)
    return Llama(distribution, words, most, lambda text: split(text)["input_ids"], special=special)


@dataclass
class TokenServer:
    """What all servers of token ids do.

    Attributes:
        distribution: ids so far -> log-probability of every token.
        words: the text of every token.
        most: most candidates that it lists.
        split: text -> token ids; None for a token of the text's length for each word.
        special: id -> spelling of each special token, whose word is empty.
        change: changes an event or an answer before it is sent.
        slow_after: number of events after which it waits to be released; None for never.
        dies_after: number of events after which the connection ends; None for never.
    """

    distribution: Distribution = some_logprobs
    words: Sequence[str] = WORDS
    most: int = 10_000
    split: Callable[[str], list[int]] | None = None
    special: Mapping[int, str] = field(default_factory=dict[int, str])
    change: Callable[[dict[str, Any]], dict[str, Any]] = lambda event: event
    slow_after: int | None = None
    dies_after: int | None = None
    server: FakeServer | None = None
    completions: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    @contextmanager
    def serve(self) -> Iterator[FakeServer]:
        """Yield the running server."""
        with serve_models(self.answers()) as server:
            self.server = server
            yield server

    def answers(self) -> dict[str, Answer]:
        """Return path -> what answers it."""
        raise NotImplementedError

    def split_words(self, text: str) -> list[int]:
        """Return the ids of a text."""
        if self.split is not None:
            return self.split(text)
        return [5 + len(word) % 30 for word in text.split()]

    def generate(
        self, prompt: Sequence[int], count: int, allowed: Sequence[int] = ()
    ) -> Iterator[tuple[int, Sequence[float]]]:
        """Yield the most probable tokens, each with the distribution that it is from.

        Args:
            prompt: ids of the prompt.
            count: most tokens.
            allowed: the only tokens to choose from; empty for all.
        """
        ids = list(prompt)
        for _ in range(count):
            logprobs = self.distribution(ids)
            ids.append(max(allowed or range(len(logprobs)), key=logprobs.__getitem__))
            yield ids[-1], logprobs
            if ids[-1] == END_ID:
                return

    def send_stream(self, events: list[dict[str, Any]]) -> Reply:
        """Return the stream of events."""
        return Reply(self._send(events), dies=self.dies_after is not None)

    def _send(self, events: list[dict[str, Any]]) -> Iterator[bytes]:
        for at, chunk in enumerate(to_events(map(self.change, events))):
            if at == self.dies_after:
                return
            if at == self.slow_after:
                assert self.server is not None
                self.server.wait()
            yield chunk


def order_tokens(logprobs: Sequence[float]) -> list[int]:
    """Return the ids of all tokens, most probable first."""
    return sorted(range(len(logprobs)), key=lambda i: -logprobs[i])


@dataclass
class Llama(TokenServer):
    """A server with llama.cpp's native interface."""

    def answers(self) -> dict[str, Answer]:
        """Return path -> what answers it."""
        listed = {"id": "m", "owned_by": "llamacpp", "meta": {"n_vocab": len(self.words)}}
        return {
            "/v1/models": lambda _: Reply({"data": [listed]}),
            "/props": lambda _: Reply({"eos_token": "<end>"}),
            "/tokenize": self.tokenize,
            "/detokenize": lambda a: Reply(
                {"content": "".join(self._spell(i) for i in a.body["tokens"])}
            ),
            "/apply-template": lambda a: Reply(
                {"prompt": "".join(m["content"] for m in a.body["messages"])}
            ),
            "/completion": self.complete,
        }

    def tokenize(self, asked: Asked) -> Reply:
        """Answer with a token for each word, or with the one that ends a text."""
        text = asked.body["content"]
        ids = [END_ID] if text == "<end>" else self.split_words(text)
        return Reply({"tokens": [{"id": i, "piece": self._spell(i)} for i in ids]})

    def _spell(self, token_id: int) -> str:
        return self.special.get(token_id, self.words[token_id])

    def complete(self, asked: Asked) -> Reply:
        """Answer with the most probable tokens, or with a stream of them."""
        body = asked.body
        self.completions.append(body)
        events = self._events(body)
        if body["stream"]:
            return self.send_stream(events)
        whole: dict[str, Any] = {
            **events[-1],
            "content": "",
            "tokens": [],
            "completion_probabilities": [],
        }
        for event in events[:-1]:
            for name in ("content", "tokens", "completion_probabilities"):
                whole[name] += event[name]
        return Reply(self.change(whole))

    def _events(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        found, start, stop_type = list[dict[str, Any]](), len(body["prompt"]), "limit"
        for token, logprobs in self.generate(body["prompt"], body["n_predict"]):
            best = order_tokens(logprobs)[: min(self.most, body["n_probs"])]
            listed = [self._entry(i, logprobs) for i in best]
            found.append(
                {
                    "content": self.words[token],
                    "tokens": [token],
                    "stop": False,
                    "tokens_predicted": len(found) + 1,
                    "tokens_evaluated": start,
                    "completion_probabilities": [
                        {**self._entry(token, logprobs), "top_logprobs": listed}
                    ],
                }
            )
            stop_type = "eos" if token == END_ID else "limit"
        last = {
            "content": "",
            "tokens": [],
            "stop": True,
            "stop_type": stop_type,
            "model": "m.gguf",
        }
        counts = {"tokens_predicted": len(found), "tokens_evaluated": start}
        return [*found, {**last, **counts}]

    def _entry(self, token_id: int, logprobs: Sequence[float]) -> dict[str, Any]:
        word = self.words[token_id]
        value = max(logprobs[token_id], -1e30)
        return {"id": token_id, "token": word, "bytes": list(word.encode()), "logprob": value}
