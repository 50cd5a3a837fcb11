"""Why a step that writes one token, by argmax or by a draw, chose it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from engine.inspection.explanation import CHOSEN, Claim, Explainer
from engine.inspection.filter_chain import FilterChain, build_local_bias, find_smallest_bias
from engine.inspection.filter_report import (
    find_blocking_filter,
    find_removals,
    report_rank,
    report_removals,
    row_values,
    run_sequence_bias,
    token_name,
)
from engine.inspection.rerun import ReplayedStep
from engine.loops.exponential_race import draw_noise
from engine.messages import Message
from engine.number_text import (
    format_distinct,
    format_number,
    format_ordinal,
    format_percent,
    format_value,
    round_up_until,
)
from engine.processors import FILTERS
from engine.processors.filter import CUTS

MAX_TEMPERATURE = 100.0
_MIN_TEMPERATURE = 0.001


@dataclass(frozen=True)
class Race:
    """The exponential race that drew a token: the smallest e / p wins.

    Attributes:
        noise: (vocab,) exponential noise e of every token.
    """

    noise: torch.Tensor

    def winner(self, values: torch.Tensor) -> int:
        """Return the token that wins with these (vocab,) scores."""
        return int((torch.softmax(values, -1) / self.noise).argmax())


def redraw_race(place: ReplayedStep, chain: FilterChain) -> Race:
    """Redraw the noise of a step."""
    # Noise for all rows in one call, as in the loop; another shape would give other numbers.
    noise = draw_noise(chain.logits, place.generator())
    return Race(noise[chain.row])


def is_sampled_step(place: ReplayedStep) -> bool:
    """Return True if the step samples its token."""
    if place.trace.strategy == "sampling":
        return True
    return bool(place.trace.config.get("do_sample"))


def explain(
    place: ReplayedStep,
    chain: FilterChain,
    token_id: int,
    draft: Explainer,
    race: Race | None,
    rule: str,
) -> None:
    """Write why a step chose a token or did not.

    Args:
        place: the step.
        chain: the row's processors.
        token_id: the token in question.
        draft: receives the explanation.
        race: the draw; None if the step takes the best token.
        rule: name of the rule that takes the best token, such as "greedy search".
    """
    explain_against_chosen(place, chain, token_id, place.step.emit[-1], draft, race, rule)


def explain_against_chosen(
    place: ReplayedStep,
    chain: FilterChain,
    token_id: int,
    chosen: int,
    draft: Explainer,
    race: Race | None,
    rule: str,
) -> None:
    """Write why a token was chosen or not, where ``chosen`` is the actual choice."""
    here = report_rank(draft, chain, token_id)
    if token_id == chosen:
        draft.chosen = True
        if race is None:
            _explain_best(place, chain, token_id, draft, rule)
        else:
            _explain_draw_won(place, chain, token_id, draft, race)
        return
    found = find_removals(chain, place, token_id, len(chain.text) - count_prompt_ids(place))
    if found:
        report_removals(draft, found)
    elif race is None:
        _explain_not_best(place, chain, token_id, draft, here, rule)
    else:
        _explain_draw_lost(place, chain, token_id, chosen, draft, race)


def count_prompt_ids(place: ReplayedStep) -> int:
    """Return the number of ids before the first new token."""
    return 1 if place.trace.model.is_encoder_decoder else len(place.trace.prompt_ids)


def _explain_best(
    place: ReplayedStep, chain: FilterChain, token_id: int, draft: Explainer, rule: str
) -> None:
    values = row_values(chain.scores, chain.row)
    probs, two = torch.softmax(values, -1), values.topk(2)
    name = token_name(place, token_id)
    if not float(two.values[1]) > -torch.inf:
        draft.add_sentence(
            "Only {name} was left: the filters had removed every other token.", name=name
        )
        return
    second = int(two.indices[1] if int(two.indices[0]) == token_id else two.indices[0])
    draft.add_sentence(
        "{name} was the likeliest token, with {percent}, so {rule} took it. Next is "
        "{second} with {other}.",
        name=name,
        percent=format_percent(float(probs[token_id])),
        second=token_name(place, second),
        other=format_percent(float(probs[second])),
        rule=rule,
    )
    lead = float(values[token_id] - values[second])
    draft.add_fact(
        "Lead in the logit", format_number(lead), "How far it is ahead of the next token."
    )


def _explain_not_best(
    place: ReplayedStep, chain: FilterChain, token_id: int, draft: Explainer, here: Any, rule: str
) -> None:
    values = row_values(chain.scores, chain.row)
    probs, best = torch.softmax(values, -1), int(values.argmax())
    gap = float(values[best] - values[token_id])
    name = token_name(place, token_id)
    draft.add_sentence(
        "{name} is {place} with {percent}, behind {best} with {most}, and {rule} "
        "takes only the first.",
        name=name,
        place=format_ordinal(here.place),
        percent=format_percent(here.used),
        best=token_name(place, best),
        most=format_percent(float(probs[best])),
        rule=rule,
    )
    guilty = find_blocking_filter(chain, token_id)
    draft.add_sentence(
        Message("Without {guilty} it would have been the first.", guilty=guilty) if guilty else ""
    )
    bias = find_smallest_bias(
        lambda b: (
            int(row_values(chain.scores_with_bias(token_id, b), chain.row).argmax()) == token_id
        ),
        gap,
    )
    _claim_missing_bias(place, chain, token_id, draft, bias)


def _claim_missing_bias(
    place: ReplayedStep,
    chain: FilterChain,
    token_id: int,
    draft: Explainer,
    bias: float | None,
    same_draw: bool = False,
) -> None:
    """Write how much higher the logit would have had to be, and claim it."""
    if bias is None:
        draft.add_sentence("No higher logit would have made it the choice.")
        return
    template = (
        "It would have been taken by the same draw with a logit {bias} higher."
        if same_draw
        else "It would have been taken with a logit {bias} higher."
    )
    draft.add_sentence(template, bias=format_number(bias))
    draft.add_fact(
        "Missing in the logit",
        format_number(bias),
        "With this much more in the model's logit, after this text only, it would have been taken.",
    )
    value = build_local_bias(chain.text, token_id, bias, run_sequence_bias(place))
    draft.claim = Claim({"sequence_bias": value}, CHOSEN)


def _explain_draw_won(
    place: ReplayedStep, chain: FilterChain, token_id: int, draft: Explainer, race: Race
) -> None:
    values = row_values(chain.scores, chain.row)
    probs = torch.softmax(values, -1)
    arrivals = race.noise / probs
    name = token_name(place, token_id)
    p, own = float(probs[token_id]), float(arrivals[token_id])
    _add_noise_facts(draft, float(race.noise[token_id]), own)
    if int((probs > 0).sum()) < 2:
        draft.add_sentence(
            "Only {name} was left: the filters had removed every other token.", name=name
        )
        return
    order = arrivals.topk(2, largest=False)
    second = int(order.indices[1])
    first, then = format_distinct(own, float(order.values[1]))
    best = int(values.argmax())
    draft.add_sentence(
        "{name} had a chance of {percent}, and this seed favoured it: its random number "
        "{noise} let it win the race at {first}, before {second} at {then}.",
        name=name,
        percent=format_percent(p),
        noise=format_number(float(race.noise[token_id])),
        first=first,
        second=token_name(place, second),
        then=then,
    )
    if best != token_id:
        draft.add_sentence(
            "The likeliest token was {best} with {percent}.",
            best=token_name(place, best),
            percent=format_percent(float(probs[best])),
        )


def _add_noise_facts(draft: Explainer, noise: float, arrival: float) -> None:
    draft.add_fact(
        "Noise e", format_number(noise), "Exponential noise of this draw, from the run's seed."
    )
    draft.add_fact(
        "Arrival e ÷ p", format_number(arrival), "The smallest arrival of all tokens wins."
    )


def _explain_draw_lost(
    place: ReplayedStep,
    chain: FilterChain,
    token_id: int,
    chosen: int,
    draft: Explainer,
    race: Race,
) -> None:
    values = row_values(chain.scores, chain.row)
    probs = torch.softmax(values, -1)
    arrivals = race.noise / probs
    p, noise = float(probs[token_id]), float(race.noise[token_id])
    own, below = format_distinct(noise, p * float(arrivals[chosen]))
    late, first = format_distinct(float(arrivals[token_id]), float(arrivals[chosen]))
    draft.add_sentence(
        "{name} had a chance of {percent}, but this seed favoured {chosen} ({first} "
        "against {late} in the race).",
        name=token_name(place, token_id),
        percent=format_percent(p),
        chosen=token_name(place, chosen),
        first=first,
        late=late,
    )
    draft.add_sentence(
        "Its random number was {noise}, but it needed one below {below}.", noise=own, below=below
    )
    _add_noise_facts(draft, noise, float(arrivals[token_id]))
    draft.add_fact(
        "Noise needed", Message("below {below}", below=below), "p times the winner's arrival."
    )
    begin = float(torch.log(arrivals[token_id] / arrivals[chosen]))

    def wins(bias: float) -> bool:
        biased = row_values(chain.scores_with_bias(token_id, bias), chain.row)
        return race.winner(biased) == token_id

    bias = find_smallest_bias(wins, max(begin, 0.001))
    heat = _find_winning_temperature(chain, token_id, race, place)
    if heat is not None:
        draft.add_sentence(
            "At temperature {heat} the same draw would have taken it.", heat=format_value(heat)
        )
        draft.add_fact(
            "Temperature that takes it",
            format_value(heat),
            "With the noise and filters of this step.",
        )
    _claim_missing_bias(place, chain, token_id, draft, bias, same_draw=True)


def _find_winning_temperature(
    chain: FilterChain, token_id: int, race: Race, place: ReplayedStep
) -> float | None:
    """Return a temperature at which the same noise draws the token, or None."""
    at = next((i for i, link in enumerate(chain.links) if link.name == "Temperature"), None)
    names = [link.name for link in chain.links]
    temperature = float(getattr(place.run.config, "temperature", 1.0)) if place.run else 1.0
    if at is None:
        # Without a temperature processor, one would run right before the first of these filters.
        cuts = [f.name for f in FILTERS.values() if f.effect == CUTS and f.build is None]
        first = next((i for i, n in enumerate(names) if n in cuts or "Watermark" in n), None)
        at = len(names) if first is None else first
        scores = chain.links[at].before if at < len(names) else chain.scores
        rest = at
    else:
        scores, rest = chain.links[at].before, at + 1
    low, high = _winning_temperature_range(row_values(scores, chain.row), race.noise, token_id)
    if low is None:
        return None

    def wins(value: float) -> bool:
        after = row_values(chain.run_processors(scores / value, rest), chain.row)
        return race.winner(after) == token_id

    if high is not None and high < temperature:
        return None
    value = round_up_until(
        max(low, _MIN_TEMPERATURE), wins, min(high or MAX_TEMPERATURE, MAX_TEMPERATURE)
    )
    return None if value is None or value == temperature else value


def _winning_temperature_range(
    values: torch.Tensor, noise: torch.Tensor, token_id: int
) -> tuple[float | None, float | None]:
    """Return the (lowest, highest) temperature at which a token wins, (None, None) for none.

    It wins if b (s_t - s_j) > log e_t - log e_j for every j, with b = 1 / temperature.
    """
    # At temperature t the token wins if gap / t > luck against every other token.
    # Double precision: nearly equal logits give large quotients, in which float32 loses the bound.
    gap = (values[token_id] - values).double()
    luck = noise[token_id].double().log() - noise.double().log()
    possible = values > -torch.inf
    possible[token_id] = False
    gap, luck = gap[possible], luck[possible]
    same = gap == 0
    # No temperature changes the order of two equal logits.
    if bool((luck[same] >= 0).any()):
        return None, None
    # Solved for b = 1 / t: dividing by a negative gap turns the inequality round.
    above = (luck / gap)[gap > 0]
    below = (luck / gap)[gap < 0]
    least = max(0.0, float(above.max())) if len(above) else 0.0
    most = float(below.min()) if len(below) else float("inf")
    if most <= least:
        return None, None
    return 1 / most, (1 / least if least else None)
