"""An explanation of a step's choice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.messages import Message

SURVIVES = "survives"
"""No processor removes the token."""
CHOSEN = "chosen"
"""The step writes the token."""
KEPT = "kept"
"""The hypothesis with the token goes on or joins the finished ones."""
CONSIDERED = "considered"
"""The token is among the candidates that get a closer look."""
ACCEPTED = "accepted"
"""The drafted token is accepted."""


@dataclass(frozen=True)
class Fact:
    """One number of an explanation.

    Attributes:
        name: two to five words.
        value: formatted, with its unit.
        meaning: one sentence.
    """

    name: str
    value: str
    meaning: str


@dataclass(frozen=True)
class Claim:
    """A counterfactual that a program can test.

    Attributes:
        changes: parameter -> value. Everything else stays the same, including the step's noise.
        then: the token's state after the change; one of the names above.
        at_step: whether the claim only holds with the step's text given, because a complete rerun
            with the change may diverge earlier.
    """

    changes: Mapping[str, Any]
    then: str
    at_step: bool = False


@dataclass(frozen=True)
class Explanation:
    """Why a step chose a token or did not.

    Attributes:
        token_id: id in the model's vocabulary.
        name: the token as the page shows it.
        sentence: the explanation in plain words.
        chosen: whether the step wrote the token.
        facts: the numbers behind the sentence.
        claim: the change that would have altered the outcome, None for none.
        scope: one sentence on the data used.
        exact: whether the data cover the whole vocabulary.
    """

    token_id: int
    name: str
    sentence: str
    chosen: bool = False
    facts: tuple[Fact, ...] = ()
    claim: Claim | None = None
    scope: str = ""
    exact: bool = True


@dataclass
class Explainer:
    """Collects the sentences and facts of an explanation."""

    sentences: list[str] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    claim: Claim | None = None
    chosen: bool = False

    def add_sentence(self, template: str, /, **values: object) -> None:
        """Add a sentence, as a template with its values; an empty one is skipped."""
        if template:
            self.sentences.append(Message(template, **values) if values else template)

    def add_fact(self, name: str, value: str, meaning: str) -> None:
        """Add a number."""
        self.facts.append(Fact(name, value, meaning))
