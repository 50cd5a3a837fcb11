"""A model whose forward passes are requests to a server that lists its whole vocabulary.

With it every strategy that needs nothing but the distribution of the next token runs as with a model
on this machine, with the same loops, filters and record.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from transformers import GenerationMixin, PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

from engine.endpoints.probe import PROBE_PROMPT, ServerReport, probe
from engine.endpoints.server_lookup import ModelServer
from engine.errors import DecodeError, ModelError
from engine.live.server_tokenizer import ServerTokenizer
from engine.live.token_by_token import ask_next_token
from engine.models.loading import LoadedModel
from engine.trace.records import ModelInfo


class ServerConfig(PreTrainedConfig):
    """The size of the vocabulary, and the tokens that end a text."""

    model_type = "server"


class ServerModel(PreTrainedModel, GenerationMixin):
    """A generation model without weights and without a cache.

    Its logits are log-probabilities, as a server reports no logits.

    Args:
        config: see ServerConfig.
        ask: ids of a text -> (vocab,) log-probabilities of the token that follows it.
    """

    config_class = ServerConfig

    def __init__(self, config: ServerConfig, ask: Callable[[Sequence[int]], torch.Tensor]) -> None:
        super().__init__(config)
        self.ask = ask
        # transformers reads the device and the dtype of a model from its parameters.
        self.place = torch.nn.Parameter(torch.zeros(1), requires_grad=False)

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        **_options: Any,
    ) -> CausalLMOutput:
        """Return the (rows, 1, vocab) log-probabilities after each row of (rows, length) ids."""
        del attention_mask  # a prompt has no padding, and what follows a finished text is not used
        rows = [tuple(row) for row in input_ids.tolist()]
        # Beams begin as copies of the prompt.
        found = {row: self.ask(row) for row in dict.fromkeys(rows)}
        return CausalLMOutput(logits=torch.stack([found[row] for row in rows])[:, None])


class ServedModel(LoadedModel):
    """A ServerModel with its tokenizer; its record names the server's host."""

    host = ""

    def info(self) -> ModelInfo:
        """Return the model's record for a trace."""
        return dataclasses.replace(super().info(), host=self.host, dtype="")


def open_server_model(server: ModelServer) -> ServedModel:
    """Return the model of a server for the strategies that need its whole vocabulary.

    Raises:
        ModelError: the server does not list it, with ids, texts and the model's own probabilities.
        DecodeError: the server does not answer, or with something else.
    """
    able = _check_whole(server, probe(server))
    first = ask_next_token(server, able, server.encode(PROBE_PROMPT).ids)
    raw = {token.id: token.raw or b"" for token in first.step.top if token.id is not None}
    if {*raw} != {*range(able.candidates)}:
        raise _too_few(server, len(raw))

    def ask(ids: Sequence[int]) -> torch.Tensor:
        listed = ask_next_token(server, able, ids).step.top
        if len(listed) != able.candidates:
            raise DecodeError(
                "The server was asked for {n} candidates and listed {found}.",
                n=able.candidates,
                found=len(listed),
            )
        logprobs = torch.full((able.candidates,), -torch.inf)
        places = torch.tensor([token.id for token in listed])
        values = [-torch.inf if token.logprob is None else token.logprob for token in listed]
        logprobs[places] = torch.tensor(values)
        return logprobs

    ends = list(able.end_ids) or None
    config = ServerConfig()
    config.vocab_size, config.eos_token_id = able.candidates, ends
    model: Any = ServerModel(config, ask).eval()
    tokenizer: Any = ServerTokenizer(server, raw)
    loaded = ServedModel(model, tokenizer, server.model)
    loaded.host = server.client.address.netloc
    return loaded


def _check_whole(server: ModelServer, able: ServerReport) -> ServerReport:
    """Return what a server reports if it is asked for its whole vocabulary."""
    # Only llama.cpp gives the bytes of every token, also of parts of characters.
    whole = able.server == "llamacpp" and able.names_ids and able.names_texts
    if able.vocab_size is None or not whole:
        raise _too_few(server, able.candidates)
    if able.distribution != "model":
        raise ModelError(
            "{host} does not report the model's own probabilities.",
            host=server.client.address.netloc,
        )
    return dataclasses.replace(able, candidates=able.vocab_size)


def _too_few(server: ModelServer, listed: int) -> ModelError:
    return ModelError(
        "This strategy needs the probability of every token, and the server at {host} lists {n} "
        "of them. llama.cpp's server lists all.",
        host=server.client.address.netloc,
        n=listed,
    )
