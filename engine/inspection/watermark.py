"""A watermark's effect on a token, and whether it decided the choice."""

from __future__ import annotations

import torch

from engine.inspection.explanation import Explainer
from engine.inspection.filter_chain import FilterChain, FilterLink, copy_processor
from engine.inspection.filter_report import row_values
from engine.inspection.next_token import Race
from engine.inspection.next_token import explain as explain_choice
from engine.inspection.rerun import ReplayedStep
from engine.messages import Message
from engine.number_text import format_number, format_percent
from engine.watermark import processors


def explain(
    place: ReplayedStep, chain: FilterChain, token_id: int, draft: Explainer, race: Race | None
) -> None:
    """Write why a token was chosen or not, and the watermark's part in it."""
    explain_choice(place, chain, token_id, draft, race, "the step")
    at = next(
        i
        for i, link in enumerate(chain.links)
        if isinstance(link.processor, (processors.GreenListProcessor, processors.SynthIdProcessor))
    )
    link = chain.links[at]
    if isinstance(link.processor, processors.GreenListProcessor):
        _explain_green_list(chain, link, token_id, draft)
    else:
        _explain_tournament(chain, link, token_id, draft)
    _explain_watermark_effect(chain, at, token_id, draft, race)


def _explain_green_list(
    chain: FilterChain, link: FilterLink, token_id: int, draft: Explainer
) -> None:
    """Write the token's colour and its effect on the logit."""
    processor = copy_processor(link.processor)
    assert isinstance(processor, processors.GreenListProcessor)
    # The processor records the boosted tokens while it runs.
    processor(chain.ids, link.before.clone())
    boosted = processor.boosted[chain.row]
    if boosted is None:
        draft.add_sentence(
            "There was too little text before it for a green list, so nothing was marked."
        )
        return
    bias, ratio = processor.bias, processor.greenlist_size / processor.vocab_size
    if isinstance(boosted, torch.Tensor):
        green = bool((boosted == token_id).any())
        tested = True
    else:
        green, tested = boosted.get(token_id, False), token_id in boosted
    if green:
        draft.add_sentence(
            "It is green here, which added {bias} to its logit.", bias=format_number(bias)
        )
        draft.add_fact(
            "Colour",
            "green",
            Message(
                "One of the {percent} of the vocabulary with a bonus.",
                percent=format_percent(ratio),
            ),
        )
    elif tested:
        draft.add_sentence(
            "It is red here; every green token got {bias} more.", bias=format_number(bias)
        )
        draft.add_fact(
            "Colour",
            "red",
            Message(
                "{percent} of the vocabulary are green at a step.", percent=format_percent(ratio)
            ),
        )
    else:
        draft.add_sentence("It is not among the 40 best tokens, the only ones that selfhash tests.")
        draft.add_fact("Colour", "not tested", "Only tested tokens can get the bonus.")
    draft.add_fact(
        "Bonus for green", f"+{format_number(bias)}", "Added to the logit of every green token."
    )


def _explain_tournament(
    chain: FilterChain, link: FilterLink, token_id: int, draft: Explainer
) -> None:
    """Write the token's result in SynthID's tournament."""
    processor = copy_processor(link.processor)
    assert isinstance(processor, processors.SynthIdProcessor)
    # The processor records its context and whether it acted while it runs.
    processor(chain.ids, link.before.clone())
    if not processor.marked[chain.row]:
        draft.add_sentence("The mark did not act at this step: its context had been used before.")
        return
    state = processor.state
    assert state is not None
    context = state.context[chain.row : chain.row + 1]
    token = torch.tensor([[token_id]], device=context.device)
    bits = processor.g_values_after(context, token)[0, 0].tolist()
    before = float(torch.softmax(row_values(link.before, chain.row), -1)[token_id])
    after = float(torch.softmax(row_values(link.after, chain.row), -1)[token_id])
    ones, depth = int(sum(bits)), len(bits)
    template = (
        "Its key bits are 1 in {ones} of the {depth} rounds of the tournament, which raised its "
        "probability from {before} to {after}."
        if after > before
        else "Its key bits are 1 in {ones} of the {depth} rounds of the tournament, which lowered "
        "its probability from {before} to {after}."
    )
    change = {"before": format_percent(before), "after": format_percent(after)}
    draft.add_sentence(template, ones=ones, depth=depth, **change)
    draft.add_fact("Before the tournament", format_percent(before), "After all other filters.")
    draft.add_fact("After the tournament", format_percent(after), "With this it was drawn.")
    draft.add_fact(
        "Rounds with a 1",
        Message("{hits} of {trials}", hits=ones, trials=depth),
        "A 1 beats a 0 in its round.",
    )


def _explain_watermark_effect(
    chain: FilterChain, at: int, token_id: int, draft: Explainer, race: Race | None
) -> None:
    """Write whether the choice would have been another without the watermark."""
    values = row_values(chain.scores_without(at), chain.row)
    other = int(values.argmax()) if race is None else race.winner(values)
    if draft.chosen and other != token_id:
        draft.add_sentence(
            "Without the mark the step would have taken another token."
            if race is None
            else "Without the mark the same draw would have taken another token."
        )
    elif not draft.chosen and other == token_id:
        draft.add_sentence(
            "Without the mark the step would have taken it."
            if race is None
            else "Without the mark the same draw would have taken it."
        )
