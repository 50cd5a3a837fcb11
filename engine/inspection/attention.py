"""The attention weights of the position that predicted a token.

They need not explain the choice (Jain and Wallace 2019, 1902.10186). The first position receives
the attention that no head needs (Xiao et al. 2023, 2309.17453).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from engine.errors import EngineError, ModelError, ParameterError
from engine.inspection.positions import Positions, encoder_positions, text_positions
from engine.inspection.target_token import TargetToken
from engine.loops.teacher_forced import teacher_forced_inputs
from engine.messages import Message
from engine.models.model_types import Outputs
from engine.models.model_views import build_inspection_view
from engine.run.pass_pauses import pause_between_layers
from engine.settings import SETTINGS

if TYPE_CHECKING:
    from engine.models.loading import LoadedModel

CROSS, SELF = "cross", "self"
"""Attention to the encoder's output, and to the decoder's own text so far."""
CAVEAT = (
    "Attention says where the model looked, not why it took the token: what a head looks at need not change "
    "the answer, and the first position often takes what no head needs."
)
_FLOAT_BYTES = 4


@dataclass(frozen=True, eq=False)
class AttentionWeights:
    """Attention weights of every head at one position.

    Attributes:
        kind: CROSS or SELF.
        positions: the positions attended to.
        weights: (layers, heads, positions) float32. Those of a head sum to 1, or to less in models
            whose heads may attend to nothing.
    """

    kind: str
    positions: Positions
    weights: np.ndarray

    @property
    def layers(self) -> int:
        """Number of layers with attention."""
        return self.weights.shape[0]

    @property
    def heads(self) -> int:
        """Number of heads per layer."""
        return self.weights.shape[1]

    def row(self, layer: int | None = None, head: int | None = None) -> tuple[float, ...]:
        """Return (positions,) attention weights of a head, or a mean.

        Args:
            layer: from 0; None is the mean over all layers.
            head: from 0; None is the mean over all heads.

        Raises:
            ParameterError: the layer or head does not exist.
        """
        for name, value, count in (("layer", layer, self.layers), ("head", head, self.heads)):
            if value is not None and not 0 <= value < count:
                raise ParameterError(
                    name,
                    value,
                    Message("the attention has {name}s 0 to {last}", name=name, last=count - 1),
                )
        chosen = self.weights if layer is None else self.weights[layer : layer + 1]
        chosen = chosen if head is None else chosen[:, head : head + 1]
        return tuple(chosen.mean(axis=(0, 1), dtype=np.float64).tolist())


@dataclass(frozen=True, eq=False)
class Attention:
    """The attention behind one token.

    Attributes:
        token_id: the token.
        piece: its text.
        logprob: its log-probability in the model, nats, before any processor.
        parts: CROSS if the model has an encoder, then SELF.
        caveat: one sentence on what the numbers do not prove.
    """

    token_id: int
    piece: str
    logprob: float
    parts: tuple[AttentionWeights, ...]
    caveat: str = CAVEAT


def compute_attention(
    loaded: LoadedModel,
    decided: TargetToken,
    media_inputs: Mapping[str, torch.Tensor] | None = None,
) -> Attention:
    """Compute the attention at the position that predicted a token, in one forward pass.

    The weights equal those of transformers with ``attn_implementation="eager"``. The model in
    memory is not changed: a shell of it that shares its weights computes them.

    Args:
        loaded: the LoadedModel; the caller must have its turn, see ``scheduler.wait_for_turn``.
        decided: the token and its text.
        media_inputs: see ``teacher_forced_inputs``.

    Raises:
        EngineError: the model returns no attention, or it would exceed the memory limit.
    """
    new = [*decided.before, decided.token_id]
    inputs = teacher_forced_inputs(loaded, decided.prompt_ids, new, media_inputs)
    # Models run with sdpa, which keeps no attention weights; switching the shared model to eager
    # would change the digits of other runs.
    shell = build_inspection_view(loaded.model, "eager")
    # Before the pass: the memory that it would take is what the limit is for.
    _check_size(loaded, inputs)
    with torch.inference_mode(), pause_between_layers(shell):
        try:
            out = shell(**inputs, use_cache=False, output_attentions=True)
        except (TypeError, ValueError, NotImplementedError):
            # Models without attention lack this argument or refuse it.
            raise no_attention_error(loaded) from None
    logprobs = torch.log_softmax(out.logits[0, -1].double(), -1)
    logprob = float(logprobs[decided.token_id])
    return Attention(
        decided.token_id,
        loaded.pieces[decided.token_id],
        logprob,
        _attention_parts(loaded, inputs, out),
    )


def _attention_parts(
    loaded: LoadedModel, inputs: dict[str, torch.Tensor], out: Outputs
) -> tuple[AttentionWeights, ...]:
    text = inputs.get("decoder_input_ids", inputs.get("input_ids"))
    assert text is not None
    ids = text[0].tolist()
    # Models with an encoder name the decoder's attention apart from the encoder's.
    own = out.get("decoder_attentions") or out.get("attentions")
    found = AttentionWeights(
        SELF, text_positions(loaded, ids), _last_row_weights(loaded, own, len(ids))
    )
    cross = out.get("cross_attentions")
    if not cross or "decoder_input_ids" not in inputs:
        return (found,)
    weights = _last_row_weights(loaded, cross)
    return AttentionWeights(
        CROSS, encoder_positions(loaded, inputs, weights.shape[-1]), weights
    ), found


def _last_row_weights(loaded: LoadedModel, layers: Any, count: int | None = None) -> np.ndarray:
    """Return (layers, heads, positions) attention weights of the last position."""
    rows = [layer[0, :, -1].float().cpu() for layer in layers or () if _is_attention(layer, count)]
    if not rows or len({row.shape for row in rows}) > 1:
        raise no_attention_error(loaded)
    return torch.stack(rows).numpy()


def _is_attention(layer: Any, count: int | None) -> bool:
    """Return True for (1, heads, queries, positions) weights; layers without attention differ."""
    if not isinstance(layer, torch.Tensor) or layer.dim() != 4 or layer.shape[0] != 1:
        return False
    return count is None or layer.shape[-1] == count


def no_attention_error(loaded: LoadedModel) -> ModelError:
    """Return the error for a model without attention weights."""
    return ModelError(
        "{name} gives no attention: its layers are of another kind.", name=loaded.name
    )


def _check_size(loaded: LoadedModel, inputs: Mapping[str, torch.Tensor]) -> None:
    """Refuse a pass whose attention needs too much memory: it holds all pairs of positions.

    Raises:
        EngineError: it needs more than ``max_attention_bytes``.
    """
    config = loaded.model.config.get_text_config(decoder=True)
    heads = next(
        (n for name in _HEAD_COUNT_NAMES if isinstance(n := getattr(config, name, None), int)),
        loaded.layers,
    )
    text = inputs.get("decoder_input_ids", inputs.get("input_ids"))
    read = inputs["input_ids"] if "decoder_input_ids" in inputs and "input_ids" in inputs else None
    own = 0 if text is None else text.shape[1]
    other = 0 if read is None else read.shape[1]
    needed = loaded.layers * heads * (own * own + own * other + other * other) * _FLOAT_BYTES
    if needed > SETTINGS.max_attention_bytes:
        raise EngineError(
            "The attention of this step takes {needed} MB and may take {most} MB; ask "
            "about an earlier step.",
            needed=f"{needed / 1e6:,.0f}",
            most=f"{SETTINGS.max_attention_bytes / 1e6:,.0f}",
        )


_HEAD_COUNT_NAMES = (
    "num_attention_heads",
    "decoder_attention_heads",
    "num_heads",
    "n_head",
    "n_heads",
)
