"""Why DoLa chose a token: the growth of its log-probability from an earlier layer to the last."""

from __future__ import annotations

import torch

from engine.inspection.explanation import CHOSEN, Claim, Explainer
from engine.inspection.filter_chain import FilterChain
from engine.inspection.filter_report import row_values, token_name
from engine.inspection.next_token import Race
from engine.inspection.next_token import explain as explain_choice
from engine.inspection.rerun import ReplayedStep
from engine.loops.dola import LayerContrast, contrast_layers
from engine.messages import Message
from engine.number_text import format_number, format_percent
from engine.trace.details import LayerDetail


def explain(
    place: ReplayedStep,
    chain: FilterChain,
    detail: LayerDetail,
    token_id: int,
    draft: Explainer,
    race: Race | None,
) -> None:
    """Write why a token was chosen or not.

    Args:
        place: the step.
        chain: the row's processors; the first is the layer contrast.
        detail: the step's record.
        token_id: the token in question.
        draft: receives the explanation.
        race: the draw; None if the step takes the best contrast.
    """
    layer = detail.premature_layer
    contrast = row_values(chain.links[0].after, chain.row)
    grown = float(contrast[token_id])
    final = torch.log_softmax(chain.logits[chain.row], -1)
    # -inf marks a token that DoLa's plausibility cut rules out, so it has no growth to tell.
    if grown > -torch.inf:
        _explain_growth(place, token_id, layer, contrast, draft)
    explain_choice(place, chain, token_id, draft, race, "DoLa")
    draft.add_fact(
        "Contrasted layer", str(layer), "The candidate layer that differs most from the last."
    )
    if grown > -torch.inf:
        early = float(final[token_id]) - grown
        draft.add_fact(
            "Growth since that layer",
            format_number(grown),
            Message(
                "{final} in the last layer less {early} in layer {layer}; natural logarithms.",
                final=format_number(float(final[token_id])),
                early=format_number(early),
                layer=layer,
            ),
        )
        if not draft.chosen and race is None:
            _explain_other_layer(place, chain, detail, token_id, draft)


def _explain_growth(
    place: ReplayedStep, token_id: int, layer: int, contrast: torch.Tensor, draft: Explainer
) -> None:
    chosen, name = place.step.emit[-1], token_name(place, token_id)
    draft.add_sentence(_growth_sentence(layer, name, float(contrast[token_id])))
    if token_id != chosen:
        other = token_name(place, chosen)
        draft.add_sentence(_growth_sentence(layer, other, float(contrast[chosen])))


def _growth_sentence(layer: int, name: str, by: float) -> Message:
    values = {"layer": layer, "name": name, "by": format_number(abs(by))}
    if by >= 0:
        return Message(
            "From layer {layer} to the last the log-probability of {name} grew by {by}.", **values
        )
    return Message(
        "From layer {layer} to the last the log-probability of {name} fell by {by}.", **values
    )


def _explain_other_layer(
    place: ReplayedStep, chain: FilterChain, detail: LayerDetail, token_id: int, draft: Explainer
) -> None:
    """Write which other layer would have made the token the choice."""
    first = chain.links[0].processor
    assert isinstance(first, LayerContrast)
    layers = first.layers
    if layers is None:
        return
    for layer in sorted(set(range(layers.raw.shape[1])) - {detail.premature_layer}):
        rows = torch.full((len(layers.final),), layer, device=layers.final.device)
        # From place 1 on: the first link is the contrast itself, which is replaced.
        scores = row_values(chain.run_processors(contrast_layers(layers, rows), 1), chain.row)
        if int(scores.argmax()) == token_id:
            p = float(torch.softmax(scores, -1)[token_id])
            draft.add_sentence(
                "Contrasted with layer {layer} it would have been taken.", layer=layer
            )
            draft.add_fact(
                "Layer that takes it",
                str(layer),
                Message("It would have had {percent} there.", percent=format_percent(p)),
            )
            draft.claim = Claim({"dola_layers": [layer]}, CHOSEN, at_step=True)
            return
