"""Where the page puts things: the families of strategies and the groups of parameters, named once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

FAMILIES = {
    "basic": "Basics",
    "search": "Search",
    "contrast": "Contrast",
    "drafting": "Drafting",
    "watermark": "Watermark",
    "custom": "Your own",
}
"""The order of strategies on the page and in lists: those of one kind stand side by side."""

MAIN = "main"
"""The group whose controls are always in sight."""

FOLDED = {
    "weights": "Weights",
    "length": "Length and stopping",
    "sampling": "More sampling filters",
    "penalties": "Penalties",
    "tokens": "Tokens: ban, bias, force",
    "advanced": "Guidance and numerics",
}
"""The other groups of parameters, each folded away under its title."""

GROUPS = (MAIN, *FOLDED)


def one_of(what: str, name: str, allowed: Iterable[str]) -> str:
    """Return a name that is one of those allowed.

    Args:
        what: what the name is for, as it stands in the message.
        name: as it was declared.
        allowed: the names there are.

    Raises:
        ValueError: it is none of them; the sentence lists them and says the nearest. What is
            declared is ours, not a user's, so this ends the program at its start.
    """
    names = list(allowed)
    if name in names:
        return name
    near = difflib.get_close_matches(str(name), names, n=1)
    hint = f"; did you mean {near[0]}" if near else ""
    raise ValueError(f"{what} = {name!r} is not one of {', '.join(names)}{hint}.")
