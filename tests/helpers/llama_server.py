"""A server with llama.cpp's native interface for tests, whose distributions a test gives."""

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
from tests.helpers.model_server import Asked, FakeServer, Reply, serve_models, to_events

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
class Llama:
    """What the server does.

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
        listed = {"id": "m", "owned_by": "llamacpp", "meta": {"n_vocab": len(self.words)}}
        answers = {
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
        with serve_models(answers) as server:
            self.server = server
            yield server

    def tokenize(self, asked: Asked) -> Reply:
        """Answer with a token for each word, or with the one that ends a text."""
        text = asked.body["content"]
        split = self.split or (lambda words: [5 + len(word) % 30 for word in words.split()])
        ids = [END_ID] if text == "<end>" else split(text)
        return Reply({"tokens": [{"id": i, "piece": self._spell(i)} for i in ids]})

    def _spell(self, token_id: int) -> str:
        return self.special.get(token_id, self.words[token_id])

    def complete(self, asked: Asked) -> Reply:
        """Answer with the most probable tokens, or with a stream of them."""
        body = asked.body
        self.completions.append(body)
        events = self._events(body)
        if body["stream"]:
            return Reply(self._send(events), dies=self.dies_after is not None)
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

    def _send(self, events: list[dict[str, Any]]) -> Iterator[bytes]:
        for at, chunk in enumerate(to_events(map(self.change, events))):
            if at == self.dies_after:
                return
            if at == self.slow_after:
                assert self.server is not None
                self.server.wait()
            yield chunk

    def _events(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        ids, found = list(body["prompt"]), list[dict[str, Any]]()
        start = len(ids)
        stop_type = "limit"
        while len(found) < body["n_predict"]:
            logprobs = self.distribution(ids)
            order = sorted(range(len(logprobs)), key=lambda i: -logprobs[i])
            listed = [self._entry(i, logprobs) for i in order[: min(self.most, body["n_probs"])]]
            ids.append(order[0])
            found.append(
                {
                    "content": self.words[order[0]],
                    "tokens": [order[0]],
                    "stop": False,
                    "tokens_predicted": len(found) + 1,
                    "tokens_evaluated": start,
                    "completion_probabilities": [
                        {**self._entry(order[0], logprobs), "top_logprobs": listed}
                    ],
                }
            )
            if order[0] == END_ID:
                stop_type = "eos"
                break
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
