"""Terms of a step's influence: which earlier tokens it depends on."""

from __future__ import annotations

from engine.statistics.term import Term

TERMS = (
    Term(
        "attention",
        "The shares in which a head of a layer mixes what it takes from earlier positions; the shares "
        "of a head add up to 1.",
        "It says where the model looked and not why it took the token: what a head looks at need not "
        "change the answer.",
    ),
    Term(
        "self-attention",
        "Attention to the text that the decoder has read so far, the position that decides the token "
        "included.",
        "The first position often gets most of the attention, because a head that needs "
        "nothing has to look somewhere.",
    ),
    Term(
        "cross-attention",
        "Attention of a decoder to what an encoder has made of its input: the tokens of a prompt, the "
        "parts of a picture, the moments of a sound.",
        "A position of the encoder has itself looked at all others, so it holds more than its own token.",
    ),
    Term(
        "gradient × input",
        "The derivative of a token's log-probability by the embedding at each position, times that "
        "embedding: how strongly it would change if the position grew a little.",
        "It is the slope at this text alone: a larger change may do something else, even the opposite.",
    ),
    Term(
        "leave one out",
        "By how many nats the log-probability of a token falls when one position of its text is taken "
        "out and the others close up; a part of a picture or a sound is painted over instead.",
        "The text without the token is one that nobody wrote, and what two tokens say together shows "
        "in neither alone.",
    ),
)
