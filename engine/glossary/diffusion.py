"""Terms of masked diffusion."""

from __future__ import annotations

from engine.statistics.term import Term

TERMS = (
    Term(
        "hidden place",
        "A place of a text whose token is not written yet. In every pass of masked diffusion the model "
        "guesses all hidden places at once, each as if the others stayed hidden.",
        "Guesses of one pass do not see each other, so two neighbours may not fit.",
        codes=(
            "fill",
            "length",
            "given",
            "guesses",
            "position",
            "written",
            "hidden",
            "ids",
            "changes",
        ),
        params=("infill",),
    ),
    Term(
        "pass of masked diffusion",
        "One forward pass over a text with hidden places. Some of its guesses are written, the others stay "
        "hidden.",
        "Fewer passes are faster, but more words are written without seeing each other.",
        codes=("filling", "passes"),
        params=("steps",),
    ),
    Term(
        "order of writing",
        "Which guesses a pass writes: the most certain (low_confidence), any (random), or as many of the most "
        "certain as the entropy bound allows.",
        params=("remasking",),
    ),
    Term(
        "entropy bound",
        "The most entropy, in nats, that the words of one pass may have together, without the least certain "
        "of them.",
        params=("entropy_bound",),
    ),
    Term(
        "block",
        "Hidden places that are filled before the next ones. Blocks follow each other from left to right.",
        codes=("block",),
        params=("block_length",),
    ),
    Term(
        "filled and plain",
        "A text that was filled in any order, and one that the main model wrote from left to right from the "
        "same prompt, with passes, perplexity and distinct-2 of both.",
        codes=("filling_compared", "filled", "plain"),
    ),
    Term(
        "distinct-2",
        "The share of different pairs among all pairs of neighbouring tokens: 100 % if none comes twice.",
        "A text of random words has 100 %, so it says nothing alone.",
    ),
)
