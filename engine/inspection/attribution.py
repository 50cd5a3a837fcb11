"""Attribution of a token's probability to the positions of the input.

Gradient times input is the slope (Simonyan et al. 2014, 1312.6034) scaled by the input (Shrikumar
et al. 2016, 1605.01713). Leave-one-out is exact (Li et al. 2016, 1612.08220).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from engine.errors import ModelError
from engine.inspection.influence_methods import GRADIENT
from engine.inspection.positions import (
    Positions,
    encoder_positions,
    find_sound_input,
    text_positions,
)
from engine.inspection.target_token import TargetToken
from engine.loops.teacher_forced import teacher_forced_inputs
from engine.models.model_types import Model, Outputs
from engine.models.model_views import build_inspection_view
from engine.run.pass_pauses import pause_between_layers

if TYPE_CHECKING:
    from engine.models.loading import LoadedModel

INPUT, OUTPUT = "encoder", "decoder"
"""The encoder's input, and the decoder's own text so far."""
GRADIENT_CAVEAT = (
    "The gradient is the slope at this very text: what a larger change of an input would do "
    "it does not say."
)


@dataclass(frozen=True)
class PositionScores:
    """One number for every position of an input.

    Attributes:
        kind: INPUT or OUTPUT.
        positions: what the numbers belong to.
        values: nats; positive if the position raises the token's probability. None if not computed.
    """

    kind: str
    positions: Positions
    values: tuple[float | None, ...]


@dataclass(frozen=True)
class Attribution:
    """The influence of every input position on a token's probability.

    Attributes:
        method: ``GRADIENT`` or ``LEAVE_ONE_OUT`` of ``engine.inspection.influence_methods``.
        token_id: the token.
        piece: its text.
        logprob: its log-probability in the model, nats, before any processor.
        parts: INPUT if the model has an encoder, then OUTPUT.
        caveat: one sentence on what the numbers do not prove.
        note: one sentence on what was not computed, "" for nothing.
    """

    method: str
    token_id: int
    piece: str
    logprob: float
    parts: tuple[PositionScores, ...]
    caveat: str
    note: str = ""


def compute_gradient_times_input(
    loaded: LoadedModel,
    decided: TargetToken,
    media_inputs: Mapping[str, torch.Tensor] | None = None,
) -> Attribution:
    """Return gradient times input: the derivative by each embedding, multiplied by the embedding.

    It is the derivative of the token's log-probability. For a picture or a sound it is taken by the
    input values and summed over each part. A shell of the model computes it, so no parameter gets a
    gradient or changes ``requires_grad``.

    Args:
        loaded: the LoadedModel; the caller must have its turn, see ``scheduler.wait_for_turn``.
        decided: the token and its text.
        media_inputs: see ``teacher_forced_inputs``.

    Raises:
        ModelError: the model gives no gradient with respect to its embeddings.
    """
    new = [*decided.before, decided.token_id]
    inputs = teacher_forced_inputs(loaded, decided.prompt_ids, new, media_inputs)
    shell = build_inspection_view(loaded.model)
    # Gradients must work even if the caller is in inference mode.
    with torch.inference_mode(False), torch.enable_grad():
        media = {
            # Only floating-point tensors can have a gradient; masks and grids are integers.
            name: value.clone().requires_grad_(value.is_floating_point())
            for name, value in inputs.items()
            if name in (media_inputs or {})
        }
        leaves = _EmbeddingLeaves(shell)
        try:
            with pause_between_layers(shell):
                out = shell(**{**_clone_inputs(inputs), **media}, use_cache=False)
            logprob = torch.log_softmax(out.logits[0, -1].float(), -1)[decided.token_id]
            places = _find_leaves(inputs, leaves, media)
            # Some leaves have no path to the token's logit, which is no error here.
            grads = torch.autograd.grad(logprob, list(places.values()), allow_unused=True)
        except (NotImplementedError, RuntimeError) as error:
            # OutOfMemoryError is a RuntimeError; the caller handles it.
            if isinstance(error, torch.OutOfMemoryError):
                raise
            raise ModelError(
                "{name} gives no gradient by its embeddings.", name=loaded.name
            ) from None
    logprob = float(logprob.detach())
    products = {
        name: None if grad is None else (grad * leaf).detach().float()
        for (name, leaf), grad in zip(places.items(), grads, strict=True)
    }
    parts = _score_parts(loaded, inputs, out, products)
    piece = loaded.pieces[decided.token_id]
    return Attribution(GRADIENT, decided.token_id, piece, logprob, parts, GRADIENT_CAVEAT)


def _clone_inputs(inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Clone inputs: tensors from inference mode cannot be saved for a backward pass."""
    return {name: value.clone() for name, value in inputs.items()}


class _EmbeddingLeaves:
    """Turns the outputs of a shell's embeddings into leaves of the autograd graph and keeps them.

    Args:
        shell: shell of a model; its modules get hooks.
    """

    def __init__(self, shell: Model) -> None:
        self.found: list[tuple[torch.Tensor | None, torch.Tensor]] = []
        """(ids, leaf) in the order of the pass; ids are None for inputs that are embeddings."""
        # Hooks instead of `inputs_embeds`: architectures treat that argument differently, e.g. some
        # scale what they look up.
        for module in _embedding_modules(shell):
            module.register_forward_hook(self._on_embedding)
        decoder = _find_language_model(shell)
        if decoder is not None:
            decoder.register_forward_pre_hook(self._on_merged_embeddings, with_kwargs=True)

    def _on_embedding(
        self, module: torch.nn.Module, args: tuple[torch.Tensor, ...], output: torch.Tensor
    ) -> torch.Tensor:
        del module
        # Cut off from the weights: the backward pass ends here and computes no gradient for them.
        leaf = output.detach().clone().requires_grad_()
        self.found.append((args[0] if args else None, leaf))
        return leaf

    def _on_merged_embeddings(
        self, module: torch.nn.Module, args: tuple[object, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """Make the embeddings that already contain a picture's parts a leaf."""
        del module
        embeddings = kwargs.get("inputs_embeds")
        if embeddings is None:
            return None
        leaf = embeddings.detach().clone().requires_grad_()
        self.found.append((None, leaf))
        return args, {**kwargs, "inputs_embeds": leaf}

    def find_leaf(self, ids: torch.Tensor, *, last: bool) -> torch.Tensor | None:
        """Return the first or last leaf for these ids, or for embeddings of the same shape."""
        # T5 has one module for encoder and decoder: the encoder calls it first.
        same = [
            leaf
            for own, leaf in self.found
            if leaf.shape[:2] == ids.shape and (own is None or torch.equal(own, ids))
        ]
        return same[-1 if last else 0] if same else None


def _embedding_modules(shell: Model) -> list[Any]:
    """Return the token embedding modules of decoder and encoder, each once."""
    found = [shell.get_input_embeddings()]
    for get in ("get_encoder", "get_decoder"):
        part = getattr(shell, get, lambda: None)()
        own = getattr(part, "get_input_embeddings", None)
        if part is not None and own is not None:
            try:
                found.append(own())
            except (NotImplementedError, AttributeError):
                continue
    unique = {id(module): module for module in found if isinstance(module, torch.nn.Module)}
    # Patch embeddings take no ids; for a picture the pixel values are the leaf.
    return [module for module in unique.values() if _is_token_embedding(module)]


def _is_token_embedding(module: torch.nn.Module) -> bool:
    return getattr(module, "num_embeddings", None) is not None


def _find_language_model(shell: Model) -> Any | None:
    """Return the module that receives embeddings with a picture's parts, None for none."""
    for name in ("language_model",):
        for owner in (getattr(shell, "model", None), shell):
            part = getattr(owner, name, None)
            if isinstance(part, torch.nn.Module):
                return part
    return None


def _find_leaves(
    inputs: Mapping[str, torch.Tensor], leaves: _EmbeddingLeaves, media: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Return the leaf of INPUT and of OUTPUT."""
    places = {}
    text = inputs.get("decoder_input_ids")
    if text is not None and "input_ids" in inputs:
        places[INPUT] = leaves.find_leaf(inputs["input_ids"], last=False)
    elif text is not None:
        places[INPUT] = next((v for v in media.values() if v.requires_grad), None)
    places[OUTPUT] = leaves.find_leaf(inputs["input_ids"] if text is None else text, last=True)
    if any(leaf is None for leaf in places.values()):
        raise NotImplementedError
    return places


def _score_parts(
    loaded: LoadedModel,
    inputs: dict[str, torch.Tensor],
    out: Outputs,
    products: Mapping[str, torch.Tensor | None],
) -> tuple[PositionScores, ...]:
    text = inputs.get("decoder_input_ids", inputs.get("input_ids"))
    assert text is not None
    parts = []
    if INPUT in products:
        length = out.encoder_last_hidden_state.shape[1]
        positions = encoder_positions(loaded, inputs, length)
        parts.append(
            PositionScores(INPUT, positions, _sum_per_position(positions, inputs, products[INPUT]))
        )
    values = _sum_per_token(products[OUTPUT], text.shape[1])
    parts.append(PositionScores(OUTPUT, text_positions(loaded, text[0].tolist()), values))
    return tuple(parts)


def _sum_per_token(product: torch.Tensor | None, count: int) -> tuple[float | None, ...]:
    return (None,) * count if product is None else tuple(product[0].sum(-1).tolist())


def _sum_per_position(
    positions: Positions, inputs: Mapping[str, torch.Tensor], product: torch.Tensor | None
) -> tuple[float | None, ...]:
    """Return one number per encoder position, None for positions outside the input."""
    if product is None:
        return (None,) * positions.count
    if positions.ids:
        return _sum_per_token(product, positions.count)
    if positions.grid is not None:
        return (*(None,) * positions.leading, *sum_over_patches(product[0], positions.grid))
    if find_sound_input(inputs):
        return sum_over_frames(product[0], positions.count)
    return (None,) * positions.count


def sum_over_patches(values: torch.Tensor, grid: tuple[int, int]) -> tuple[float, ...]:
    """Sum (channels, height, width) values over each patch, row by row."""
    rows, columns = grid
    high, wide = values.shape[-2] // rows, values.shape[-1] // columns
    # Pixels beyond the last whole patch belong to none.
    cut = values[..., : rows * high, : columns * wide].reshape(-1, rows, high, columns, wide)
    return tuple(cut.sum(dim=(0, 2, 4)).flatten().tolist())


def sum_over_frames(values: torch.Tensor, count: int) -> tuple[float, ...]:
    """Sum values, time last, over ``count`` equal parts of the time."""
    flat = values.reshape(-1, values.shape[-1]).sum(0)
    return tuple(float(part.sum()) for part in torch.tensor_split(flat, count))
