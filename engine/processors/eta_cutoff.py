"""The eta cutoff: removes tokens below a probability that depends on the entropy."""

from __future__ import annotations

from engine.declare.params import Number, param
from engine.messages import Message
from engine.number_text import format_percent
from engine.processors.filter import CUTS, Filter
from engine.processors.removal import Removal, RemovalCase, removal_at_most, token_name
from engine.statistics.term import Term


def explain(case: RemovalCase) -> Removal:
    """Return the least probability at this entropy, and the cutoff that the token reaches."""
    epsilon, logprobs = case.processor.epsilon, case.scores.log_softmax(-1)
    # nansum: a token that an earlier filter removed gives -inf * 0 = NaN.
    entropy = -(logprobs * logprobs.exp()).nansum()
    least = float(epsilon.minimum(epsilon.sqrt() * (-entropy).exp()))
    why = Message(
        "The eta cutoff removed {name}: it has {percent}, and with this entropy "
        "{least} is the least.",
        name=token_name(case),
        percent=format_percent(case.p),
        least=format_percent(least),
    )
    facts = (
        ("Least probability", format_percent(least), "What eta_cutoff makes of this entropy."),
    )
    # The cutoff is min(epsilon, sqrt(epsilon) * exp(-entropy)); this solves it for epsilon.
    bound = max(case.p, (case.p * float(entropy.exp())) ** 2)
    return removal_at_most(
        case,
        why,
        "eta_cutoff",
        bound,
        # A tensor: transformers takes the square root of it with torch.sqrt.
        lambda v: case.with_value(epsilon=epsilon.new_tensor(v)),
        off=0.0,
        facts=facts,
    )


FILTER = Filter(
    name="Eta",
    title="Eta cutoff",
    parameter="eta_cutoff",
    off=0.0,
    params={
        "eta_cutoff": param(
            Number(
                label="Eta cutoff",
                minimum=0,
                maximum=1,
                below_maximum=True,
                step=0.0001,
                group="sampling",
                help="Drop improbable tokens, more of them when the model is sure; 0 is off.",
                papers=("2210.15191",),
            ),
            0.0,
        )
    },
    effect=CUTS,
    explain=explain,
    term=Term(
        "eta cutoff",
        "Removes every token whose probability is below a line that sinks where the entropy is high.",
        params=("eta_cutoff",),
    ),
)
