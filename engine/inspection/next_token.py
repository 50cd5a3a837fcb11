"""Why a step that writes one token, by argmax or by a draw, chose it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from engine.inspection.explanation import (
    CHOSEN,
    Claim,
    Wording,
    apart,
    at_least,
    number,
    ordinal,
    percent,
    plain,
)
from engine.inspection.filter_chain import Chain, local_bias, smallest
from engine.inspection.filter_report import (
    culprit,
    known_biases,
    removals,
    row_values,
    tell_removals,
    tell_standing,
    token_name,
)
from engine.inspection.rerun import Moment

HOTTEST = 100.0
_COLDEST = 0.001


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


def race_of(place: Moment, chain: Chain) -> Race:
    """Redraw the noise of a step."""
    # Noise for all rows in one call, as in the loop; another shape would give other numbers.
    noise = torch.empty_like(chain.logits).exponential_(1, generator=place.generator())
    return Race(noise[chain.row])


def is_drawn(place: Moment) -> bool:
    """Return True if the step samples its token."""
    if place.trace.strategy == "sampling":
        return True
    return bool(place.trace.config.get("do_sample"))


def explain(
    place: Moment, chain: Chain, token_id: int, draft: Wording, race: Race | None, rule: str
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
    explain_on(place, chain, token_id, place.step.emit[-1], draft, race, rule)


def explain_on(
    place: Moment,
    chain: Chain,
    token_id: int,
    chosen: int,
    draft: Wording,
    race: Race | None,
    rule: str,
) -> None:
    """Write why a token was chosen or not, where ``chosen`` is the actual choice."""
    here = tell_standing(draft, chain, token_id)
    if token_id == chosen:
        draft.chosen = True
        if race is None:
            _best(place, chain, token_id, draft, rule)
        else:
            _drawn(place, chain, token_id, draft, race)
        return
    found = removals(chain, place, token_id, len(chain.text) - start_of(place))
    if found:
        tell_removals(draft, found)
    elif race is None:
        _behind(place, chain, token_id, draft, here, rule)
    else:
        _unlucky(place, chain, token_id, chosen, draft, race)


def start_of(place: Moment) -> int:
    """Return the number of ids before the first new token."""
    return 1 if place.trace.model.is_encoder_decoder else len(place.trace.prompt_ids)


def _best(place: Moment, chain: Chain, token_id: int, draft: Wording, rule: str) -> None:
    values = row_values(chain.scores, chain.row)
    probs, two = torch.softmax(values, -1), values.topk(2)
    name = token_name(place, token_id)
    if not float(two.values[1]) > -torch.inf:
        draft.say(f"{name} was the only token that is possible here.")
        return
    second = int(two.indices[1] if int(two.indices[0]) == token_id else two.indices[0])
    draft.say(
        f"{name} has the highest probability, {percent(float(probs[token_id]))}; "
        f"{token_name(place, second)} comes next with {percent(float(probs[second]))}, "
        f"and {rule} takes the first."
    )
    lead = float(values[token_id] - values[second])
    draft.fact("Lead in the logit", number(lead), "How far it is ahead of the next token.")


def _behind(
    place: Moment, chain: Chain, token_id: int, draft: Wording, here: Any, rule: str
) -> None:
    values = row_values(chain.scores, chain.row)
    probs, best = torch.softmax(values, -1), int(values.argmax())
    gap = float(values[best] - values[token_id])
    name = token_name(place, token_id)
    draft.say(
        f"{name} is {ordinal(here.place)} with {percent(here.used)}, behind "
        f"{token_name(place, best)} with {percent(float(probs[best]))}, and {rule} takes only the "
        "first."
    )
    guilty = culprit(chain, token_id)
    draft.say(f"Without {guilty} it would have been the first." if guilty else "")
    bias = smallest(
        lambda b: int(row_values(chain.biased(token_id, b), chain.row).argmax()) == token_id,
        gap,
    )
    _needed(place, chain, token_id, draft, bias)


def _needed(
    place: Moment, chain: Chain, token_id: int, draft: Wording, bias: float | None, same: str = ""
) -> None:
    """Write how much higher the logit would have had to be, and claim it."""
    if bias is None:
        draft.say("No higher logit would have made it the choice.")
        return
    draft.say(f"It would have been taken{same} with a logit {number(bias)} higher.")
    draft.fact(
        "Missing in the logit",
        number(bias, 3),
        "With this much more in the model's logit, after this text only, it would have been taken.",
    )
    value = local_bias(chain.text, token_id, bias, known_biases(place))
    draft.claim = Claim({"sequence_bias": value}, CHOSEN)


def _drawn(place: Moment, chain: Chain, token_id: int, draft: Wording, race: Race) -> None:
    values = row_values(chain.scores, chain.row)
    probs = torch.softmax(values, -1)
    arrivals = race.noise / probs
    name = token_name(place, token_id)
    p, own = float(probs[token_id]), float(arrivals[token_id])
    _luck(draft, float(race.noise[token_id]), own)
    if int((probs > 0).sum()) < 2:
        draft.say(f"{name} was the only token that is possible here.")
        return
    order = arrivals.topk(2, largest=False)
    second = int(order.indices[1])
    first, then = apart(own, float(order.values[1]))
    best = int(values.argmax())
    draft.say(
        f"{name} won the draw with {percent(p)}: its noise {number(float(race.noise[token_id]))} "
        f"let it arrive at {first}, before {token_name(place, second)} at {then}."
    )
    if best != token_id:
        draft.say(
            f"The most probable token was {token_name(place, best)} with "
            f"{percent(float(probs[best]))}."
        )


def _luck(draft: Wording, noise: float, arrival: float) -> None:
    draft.fact("Noise e", number(noise), "Exponential noise of this draw, from the run's seed.")
    draft.fact("Arrival e ÷ p", number(arrival), "The smallest arrival of all tokens wins.")


def _unlucky(
    place: Moment, chain: Chain, token_id: int, chosen: int, draft: Wording, race: Race
) -> None:
    values = row_values(chain.scores, chain.row)
    probs = torch.softmax(values, -1)
    arrivals = race.noise / probs
    p, noise = float(probs[token_id]), float(race.noise[token_id])
    own, below = apart(noise, p * float(arrivals[chosen]))
    late, first = apart(float(arrivals[token_id]), float(arrivals[chosen]))
    draft.say(
        f"{token_name(place, token_id)} could have been drawn, with {percent(p)}, but "
        f"{token_name(place, chosen)} arrived first, at {first} against {late}."
    )
    draft.say(f"Its noise was {own} and would have had to be below {below}.")
    _luck(draft, noise, float(arrivals[token_id]))
    draft.fact("Noise needed", f"below {below}", "p times the winner's arrival.")
    begin = float(torch.log(arrivals[token_id] / arrivals[chosen]))

    def wins(bias: float) -> bool:
        biased = row_values(chain.biased(token_id, bias), chain.row)
        return race.winner(biased) == token_id

    bias = smallest(wins, max(begin, 0.001))
    heat = _temperature(chain, token_id, race, place)
    if heat is not None:
        draft.say(f"At temperature {plain(heat)} the same draw would have taken it.")
        draft.fact(
            "Temperature that takes it", plain(heat), "With the noise and filters of this step."
        )
    _needed(place, chain, token_id, draft, bias, " by the same draw")


def _temperature(chain: Chain, token_id: int, race: Race, place: Moment) -> float | None:
    """Return a temperature at which the same noise draws the token, or None."""
    at = next((i for i, link in enumerate(chain.links) if link.name == "Temperature"), None)
    names = [link.name for link in chain.links]
    given = float(getattr(place.run.config, "temperature", 1.0)) if place.run else 1.0
    if at is None:
        # Without a temperature processor, one would run right before the first of these filters.
        filters = ("TopH", "TopK", "TopP", "MinP", "Typical", "Epsilon", "Eta")
        first = next((i for i, n in enumerate(names) if n in filters or "Watermark" in n), None)
        at = len(names) if first is None else first
        scores = chain.links[at].before if at < len(names) else chain.scores
        rest = at
    else:
        scores, rest = chain.links[at].before, at + 1
    low, high = _interval(row_values(scores, chain.row), race.noise, token_id)
    if low is None:
        return None

    def wins(value: float) -> bool:
        after = row_values(chain.run(scores / value, rest), chain.row)
        return race.winner(after) == token_id

    if high is not None and high < given:
        return None
    value = at_least(max(low, _COLDEST), wins, min(high or HOTTEST, HOTTEST))
    return None if value is None or value == given else value


def _interval(
    values: torch.Tensor, noise: torch.Tensor, token_id: int
) -> tuple[float | None, float | None]:
    """Return the (lowest, highest) temperature at which a token wins, (None, None) for none.

    It wins if b (s_t - s_j) > log e_t - log e_j for every j, with b = 1 / temperature.
    """
    gap = (values[token_id] - values).double()
    luck = noise[token_id].double().log() - noise.double().log()
    possible = values > -torch.inf
    possible[token_id] = False
    gap, luck = gap[possible], luck[possible]
    same = gap == 0
    if bool((luck[same] >= 0).any()):
        return None, None
    above = (luck / gap)[gap > 0]
    below = (luck / gap)[gap < 0]
    least = max(0.0, float(above.max())) if len(above) else 0.0
    most = float(below.min()) if len(below) else float("inf")
    if most <= least:
        return None, None
    return 1 / most, (1 / least if least else None)
