"""Runs with any legal parameters, compared with generate()."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from engine import DecodeRequest, decode
from engine.declare.params import build_config, params_of
from engine.models.loading import LoadedModel
from engine.run.generation import generate_inputs, generation_config, own_filters
from engine.run.request import check_request, fit_to_model
from engine.strategies import STRATEGIES
from engine.strategies.bundled_loops import find_bundled_loop
from engine.strategies.drafting_params import DraftingParams, DraftModelParams
from engine.trace.events import Failed
from engine.trace.json_io import dumps, loads
from tests.helpers import talkers
from tests.helpers.models import new_tokens
from tests.helpers.tokenizers import speaker_of, tokenizer_of
from tests.helpers.zoo import Kind, make_model

REFUSED, EQUAL, NOT_COMPARED = "refused in one sentence", "equal", "not in transformers"


@dataclass(frozen=True)
class Talker:
    """A model with a tokenizer, its drafts, and the prompt it continues or the question it answers."""

    target: Callable[[], LoadedModel] = talkers.target
    assistant: Callable[[str], LoadedModel | None] = talkers.assistant
    prompt: str = talkers.PROMPT
    question: str | None = None

    def request(self, name: str, params: dict[str, Any], seed: int) -> DecodeRequest:
        """Return the request of a run with these parameters."""
        asked: dict[str, Any] = {"prompt": self.prompt}
        if self.question is not None:
            asked = {"messages": self._messages()}
        draft = self.assistant(name)
        return DecodeRequest(
            name, self.target(), **asked, params=params, seed=seed, assistant=draft
        )

    def ids(self) -> list[int]:
        """Return the prompt's tokens as transformers reads it."""
        tokenizer = self.target().tokenizer
        if self.question is None:
            return tokenizer(self.prompt, split_special_tokens=True)["input_ids"]
        options = {"add_generation_prompt": True, "return_dict": False}
        return tokenizer.apply_chat_template(self._messages(), **options)

    def _messages(self) -> list[dict[str, str]]:
        return [{"role": "user", "content": str(self.question)}]


UNTRIED = {
    "SeedOss": "SeedOssForCausalLM",
    "VaultGemma": "VaultGemmaForCausalLM",
    "Helium": "HeliumForCausalLM",
    "Bert": "BertLMHeadModel",
    "Lfm3": "Lfm3ForCausalLM",
    "MiMoV2Flash": "MiMoV2FlashForCausalLM",
}
"""Architectures that no other test uses: the beginning of their configuration's class -> their own class."""


@lru_cache(maxsize=2)
def talker_of(kind: str) -> Talker:
    """Return a tiny model of an architecture, with a draft model of the same one."""
    tokenizer = tokenizer_of("byte_level")
    sizes = {"vocab_size": len(tokenizer), "eos_token_id": tokenizer.eos_token_id}
    made = Kind(kind, sizes, UNTRIED[kind])
    target, draft = (LoadedModel(make_model(made, seed), tokenizer, kind) for seed in (4, 9))

    def assistant(name: str) -> LoadedModel | None:
        needs = STRATEGIES[name].assistant
        if needs == "none":
            return None
        return draft if needs == "same_tokenizer" else speaker_of("sentencepiece")

    return Talker(lambda: target, assistant)


def expected(
    name: str, params: dict[str, Any], seed: int, talker: Talker | None = None
) -> list[list[int]] | None:
    """Return generate()'s new tokens, None where it has no such mode or filter, or refuses."""
    talker = talker or Talker()
    strategy, loaded = STRATEGIES[name], talker.target()
    request = talker.request(name, params, seed)
    config = fit_to_model(check_request(request), loaded).config
    if find_bundled_loop(strategy, config) is not None:
        return None
    ids = talker.ids()
    select = strategy.generate_kwargs(config)
    if own_filters(config, select, loaded.eos_token_ids) or config.structured_outputs:
        return None
    draft = talker.assistant(name)
    made = generation_config(config, select, loaded)
    prompt = torch.tensor([ids])
    rows = max(select.get("num_beams", 1) or 1, config.num_return_sequences)
    inputs = generate_inputs(config, loaded, rows, len(ids)) | _drafting_inputs(name, loaded, draft)
    if config.stop_strings:
        inputs |= {"stop_strings": list(config.stop_strings), "tokenizer": loaded.tokenizer}
    torch.manual_seed(seed)
    with (
        _drafting_as(config, draft or loaded),
        contextlib.suppress(ValueError, RuntimeError, IndexError),
    ):
        out = loaded.model.generate(
            prompt, attention_mask=torch.ones_like(prompt), generation_config=made, **inputs
        )
        start = 1 if loaded.is_encoder_decoder else len(ids)
        found = getattr(out, "sequences", out)[:, start:].tolist()
        return [new_tokens(row, made.eos_token_id) for row in found]
    return None


def _drafting_inputs(name: str, loaded: LoadedModel, draft: LoadedModel | None) -> dict[str, Any]:
    if draft is None:
        return {}
    inputs: dict[str, Any] = {"assistant_model": draft.model}
    if STRATEGIES[name].assistant == "any_tokenizer":
        inputs |= {"tokenizer": loaded.tokenizer, "assistant_tokenizer": draft.tokenizer}
    return inputs


@contextlib.contextmanager
def _drafting_as(config: Any, drafting: LoadedModel) -> Iterator[None]:
    """Say how to draft where transformers reads it: in the drafting model's own configuration."""
    own, shape = drafting.model.generation_config, drafting.model.config
    before, layers = dict(own.__dict__), getattr(shape, "num_hidden_layers", None)
    if isinstance(config, DraftModelParams):
        shared = params_of(DraftingParams)
        names = [n for n in params_of(DraftModelParams) if n not in shared]
        own.__dict__.update({n: getattr(config, n) for n in names})
    try:
        yield
    finally:
        own.__dict__.clear()
        own.__dict__.update(before)
        # Early exit cuts it for a draft, and leaves it so when the draft fails.
        if layers is not None:
            shape.num_hidden_layers = layers


def check_any(name: str, params: dict[str, Any], seed: int, talker: Talker | None = None) -> str:
    """Run a request and compare it with generate().

    Returns:
        REFUSED, EQUAL, or NOT_COMPARED where generate() has no such mode or refuses.

    Raises:
        AssertionError: the run ended in an internal error, or in other tokens.
    """
    talker = talker or Talker()
    target = talker.target()
    *_, last = decode(talker.request(name, params, seed))
    if isinstance(last, Failed):
        said = str(last.error)
        assert "internal error" not in said, said
        assert said.endswith((".", "….")), said
        assert "\n" not in said, said
        return REFUSED
    trace = last.trace
    if not any(isinstance(v, str) and v.startswith("<callable") for v in trace.config.values()):
        assert loads(dumps(trace)) == trace
        kept = {n: v for n, v in trace.config.items() if v is not None}
        assert build_config(STRATEGIES[name].config, kept, name)
    theirs = expected(name, params, seed, talker)
    if theirs is None:
        return NOT_COMPARED
    ours = [list(output.token_ids) for output in trace.outputs]
    # Rows that a stop string ended are filled up: beams with the end mark where padding has id 0.
    if "stop_strings" in params:
        fill = {0, *target.eos_token_ids}
        theirs = [_unfilled(row, own, fill) for row, own in zip(theirs, ours, strict=True)]
    assert ours == theirs
    return EQUAL


def _unfilled(row: list[int], own: list[int], fill: set[int]) -> list[int]:
    return row[: len(own)] if set(row[len(own) :]) <= fill else row
