"""Why a round of drafting and verification wrote a token at one of its positions."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from engine.errors import ParameterError
from engine.inspection.explanation import ACCEPTED, CHOSEN, Claim, Explainer
from engine.inspection.filter_chain import FilterChain
from engine.inspection.filter_report import find_removals, report_rank, report_removals, token_name
from engine.inspection.next_token import Race, count_prompt_ids
from engine.inspection.next_token import explain_against_chosen as explain_choice
from engine.inspection.rerun import ReplayedStep
from engine.loops.drafting.assisted import residual_distribution
from engine.loops.exponential_race import draw_noise
from engine.messages import Message
from engine.number_text import format_distinct, format_number, format_percent, format_share
from engine.trace.details import DraftDetail, DraftToken


@dataclass(frozen=True)
class RoundNumbers:
    """The numbers that decided a sampled round with draft probabilities.

    Attributes:
        p: (n + 1, vocab) the target model's probabilities.
        q: (n, vocab) the draft model's probabilities.
        u: (n,) uniform numbers of the acceptance tests.
        noise: (vocab,) exponential noise of the final token's draw.
    """

    p: torch.Tensor
    q: torch.Tensor
    u: torch.Tensor
    noise: torch.Tensor


def explain(
    place: ReplayedStep, detail: DraftDetail, token_id: int | None, draft: Explainer, at: int | None
) -> int:
    """Write why a token was written at a position of a round or not; return it.

    Args:
        place: the step.
        detail: its record.
        token_id: the token in question, None for the one that was written.
        draft: receives the explanation.
        at: index among the round's tokens, from 0; None is the last one written.

    Raises:
        ParameterError: the round wrote nothing there.
    """
    emit = place.step.emit
    where = len(emit) - 1 if at is None else at
    if not 0 <= where < len(emit):
        raise ParameterError(
            "at", at, Message("the round wrote tokens 0 to {last}", last=len(emit) - 1)
        )
    token = emit[where] if token_id is None else token_id
    chain = FilterChain(place.views[where], 0)
    drafted = detail.tokens[where] if where < len(detail.tokens) else None
    draft.chosen = token == emit[where]
    weight = place.trace.config.get("assistant_ensemble_weight")
    if (drafted is not None and drafted.u is not None) or _has_draft_probabilities(place):
        _explain_sampled(place, detail, chain, token, draft, where, weight)
        return token
    _explain_target_choice(place, detail, chain, token, draft, where, weight)
    return token


def _has_draft_probabilities(place: ReplayedStep) -> bool:
    """Return True if the round compared u with p / q: sampled, with draft probabilities."""
    guess = place.draft
    sampled = bool(place.trace.config.get("do_sample"))
    return sampled and guess is not None and guess.scores is not None and len(guess.tokens) > 0


def redraw_round_numbers(place: ReplayedStep) -> RoundNumbers:
    """Redraw p, q, u and the noise of a sampled round."""
    guess, generator = place.draft, place.generator()
    assert guess is not None
    assert guess.scores is not None
    scores = torch.cat([FilterChain(view, 0).scores for view in place.views])
    # After each model's filters, as the test of speculative sampling compares p and q.
    p = torch.softmax(scores, -1)
    q = torch.softmax(guess.scores.to(p.device), -1)
    # In the order of the loop: the uniform numbers first, then the noise of the final token.
    u = torch.rand(len(guess.tokens), generator=generator, device=p.device, dtype=p.dtype)
    noise = draw_noise(p[0], generator)
    return RoundNumbers(p, q, u, noise)


def _explain_drafted(
    place: ReplayedStep, drafted: DraftToken | None, token: int, draft: Explainer
) -> None:
    if drafted is None:
        draft.add_sentence("Nothing was drafted for this place.")
    elif drafted.token_id != token:
        draft.add_sentence("The draft had {name} here.", name=token_name(place, drafted.token_id))


def _explain_target_choice(
    place: ReplayedStep,
    detail: DraftDetail,
    chain: FilterChain,
    token: int,
    draft: Explainer,
    where: int,
    weight: float | None,
) -> None:
    """Explain a position where the target's own choice counts and the draft only saves time."""
    drafted = detail.tokens[where] if where < len(detail.tokens) else None
    chosen = place.step.emit[where]
    if weight is not None and drafted is not None:
        _explain_mixture(place, detail, chain, token, draft, where, weight)
        return
    race = None
    if place.trace.config.get("do_sample"):
        race = Race(_redraw_noise(place, detail, chain.logits, where))
    explain_choice(place, chain, token, chosen, draft, race, "the main model")
    if drafted is not None and drafted.token_id == token:
        draft.add_sentence(
            "The draft had guessed it and was right."
            if token == chosen
            else "The draft had guessed it and was wrong."
        )
    else:
        _explain_drafted(place, drafted, token, draft)
    _add_draft_facts(draft, drafted if drafted and drafted.token_id == token else None)


def _redraw_noise(
    place: ReplayedStep, detail: DraftDetail, like: torch.Tensor, where: int
) -> torch.Tensor:
    """Redraw the (vocab,) noise of one position of a round."""
    generator, places = place.generator(), len(place.views)
    if detail.tree:  # one position after the other, as far as its branches led
        return [draw_noise(like[:1], generator)[0] for _ in range(where + 1)][-1]
    # The loop draws noise for all positions of the round at once.
    return draw_noise(like.new_empty((places, like.shape[-1])), generator)[where]


def _add_draft_facts(draft: Explainer, drafted: DraftToken | None) -> None:
    if drafted is None:
        return
    _add_probability_facts(draft, drafted.p, drafted.q)


def _add_probability_facts(draft: Explainer, p: float, q: float | None) -> None:
    """Add p and q of a token; q is None if the draft gave no probabilities."""
    draft.add_fact("Main model's p", format_percent(p), "After the main model's filters.")
    if q is not None:
        draft.add_fact("Draft model's q", format_percent(q), "After the draft model's filters.")


def _explain_mixture(
    place: ReplayedStep,
    detail: DraftDetail,
    chain: FilterChain,
    token: int,
    draft: Explainer,
    where: int,
    weight: float,
) -> None:
    """Explain greedy verification against a mixture of both models."""
    report_rank(draft, chain, token)
    guess = place.draft
    assert guess is not None
    assert guess.scores is not None
    p = torch.softmax(chain.scores[0], -1)
    q = torch.softmax(guess.scores[where].to(p.device), -1)
    mixture = weight * p + (1 - weight) * q
    best, chosen = int(mixture.argmax()), place.step.emit[where]
    own, first = format_distinct(float(mixture[token]), float(mixture[best]))
    draft.add_fact("Mixture", format_share(float(mixture[token])), "w × p + (1 − w) × q.")
    name = token_name(place, token)
    if token == chosen:
        draft.add_sentence(
            "{name} has the largest share of the mixture of both models, {first}.",
            name=name,
            first=first,
        )
    else:
        draft.add_sentence(
            "{name} has {own} in the mixture of both models, and {chosen} has {first}.",
            name=name,
            own=own,
            chosen=token_name(place, chosen),
            first=first,
        )
    _add_probability_facts(draft, float(p[token]), float(q[token]))
    _explain_drafted(place, detail.tokens[where], token, draft)


def _explain_sampled(
    place: ReplayedStep,
    detail: DraftDetail,
    chain: FilterChain,
    token: int,
    draft: Explainer,
    where: int,
    weight: float | None,
) -> None:
    """Explain a position that compares u with p / q."""
    report_rank(draft, chain, token)
    numbers = redraw_round_numbers(place)
    drafted = detail.tokens[where] if where < len(detail.tokens) else None
    p = numbers.p[where]
    _add_probability_facts(
        draft, float(p[token]), None if drafted is None else float(numbers.q[where][token])
    )
    if drafted is not None and drafted.token_id == token:
        _explain_verdict(place, numbers, drafted, draft, where, weight)
        return
    if float(p[token]) == 0:
        found = find_removals(chain, place, token, len(chain.text) - count_prompt_ids(place))
        if found:
            report_removals(draft, found)
            return
    if drafted is not None and drafted.status == "accepted":
        name = token_name(place, token)
        draft.add_sentence(
            "{name} was never considered: the drafted {drafted} was accepted first (random "
            "number {u}, limit {ratio}).",
            name=name,
            drafted=token_name(place, drafted.token_id),
            u=format_share(float(numbers.u[where])),
            ratio=format_number(_acceptance_ratio(numbers, drafted.token_id, where, weight)),
        )
        return
    _explain_draw(place, numbers, token, drafted, draft, where)


def _acceptance_ratio(numbers: RoundNumbers, token: int, where: int, weight: float | None) -> float:
    """Return the limit of u: p / q, or 1 - w + w p / q with a mixture weight w."""
    ratio = float(numbers.p[where, token] / numbers.q[where, token])
    return ratio if weight is None else 1 - weight + weight * ratio


def _explain_verdict(
    place: ReplayedStep,
    numbers: RoundNumbers,
    drafted: DraftToken,
    draft: Explainer,
    where: int,
    weight: float | None,
) -> None:
    token, u = drafted.token_id, float(numbers.u[where])
    ratio = _acceptance_ratio(numbers, token, where, weight)
    u_text, limit = format_distinct(u, ratio)
    name = token_name(place, token)
    compared = "p ÷ q" if weight is None else "1 − w + w × p ÷ q"
    draft.add_fact("u", u_text, "The uniform number that judged it, from the run's seed.")
    draft.add_fact(
        compared, limit, "The drafted token is accepted while the random number is not above this."
    )
    both = {
        "name": name,
        "p": format_percent(float(numbers.p[where, token])),
        "q": format_percent(float(numbers.q[where, token])),
    }
    judged = {"told": u_text, "compared": f"{compared} = {limit}"}
    if drafted.status == "accepted" and ratio >= 1:
        draft.add_sentence(
            "{name} was drafted and accepted: the main model gives it {p}, the draft model "
            "{q}, so it is always accepted.",
            **both,
        )
        return
    if drafted.status == "accepted":
        draft.add_sentence(
            "{name} was drafted and accepted: the main model gives it {p}, the draft model "
            "{q}, and the random number {told} is not above {compared}.",
            **both,
            **judged,
        )
        return
    draft.add_sentence(
        "{name} was drafted but rejected: the main model gives it {p}, the draft model "
        "{q}, and the random number {told} is above {compared}.",
        **both,
        **judged,
    )
    draft.add_sentence(
        "It would have been accepted with a random number up to {limit}.", limit=limit
    )
    if draft.chosen:
        draft.add_sentence("The draw from what was left took it after all.")
        return
    # Just below the limit, so that rounding cannot undo the claim.
    draft.claim = Claim({"u": {where: ratio * (1 - 1e-6)}}, ACCEPTED)


def _explain_draw(
    place: ReplayedStep,
    numbers: RoundNumbers,
    token: int,
    drafted: DraftToken | None,
    draft: Explainer,
    where: int,
) -> None:
    """Explain the final token's draw: from max(p - q, 0) after a rejection, else from p."""
    rest = numbers.p[where]
    if drafted is not None:
        rest = residual_distribution(rest, numbers.q[where])
    chosen, name = place.step.emit[where], token_name(place, token)
    p = float(rest[token])
    arrivals = numbers.noise / rest
    draft.add_fact(
        "Share of what was left" if drafted else "Share of the draw",
        format_percent(p),
        "max(p − q, 0), made to sum to 1."
        if drafted
        else "p itself: the whole draft was accepted.",
    )
    if drafted is not None:
        draft.add_sentence(
            "The draft's {name} was rejected.", name=token_name(place, drafted.token_id)
        )
    if not p > 0:
        draft.add_sentence(
            "{name} had no chance: the draft model gave it at least as much as the main model, "
            "and the draw after a rejection is from p − q.",
            name=name,
        )
        return
    source = "of what was left" if drafted is not None else "of the main model"
    share = {"name": name, "percent": format_percent(p), "source": source}
    if token == chosen:
        draft.add_sentence("{name} won the draw with {percent} {source}.", **share)
        return
    late, first = format_distinct(float(arrivals[token]), float(arrivals[chosen]))
    noise, below = format_distinct(float(numbers.noise[token]), p * float(arrivals[chosen]))
    draft.add_sentence(
        "{name} had a chance of {percent} {source}, but this seed favoured {chosen} "
        "({first} against {late} in the race).",
        **share,
        chosen=token_name(place, chosen),
        first=first,
        late=late,
    )
    draft.add_sentence(
        "Its random number was {noise}, but it needed one below {below}.",
        noise=noise,
        below=below,
    )
    draft.add_fact(
        "Noise needed",
        Message("below {below}", below=below),
        "Its share times the winner's arrival.",
    )
    value = p * float(arrivals[chosen]) * (1 - 1e-5)
    draft.claim = Claim({"noise": {token: value}}, CHOSEN)
