"""Groups of strategies and groups of parameters on the page."""

from __future__ import annotations

from collections.abc import Iterable

from engine.errors import suggest_name

STRATEGY_GROUPS = {
    "greedy": "Greedy",
    "sample": "Sample",
    "beams": "Beams",
    "repeats": "Avoid repeats",
    "layers": "Layers",
    "faster": "Faster",
    "any_order": "Any order",
    "mark": "Mark",
    "custom": "Custom",
}
"""Groups of strategies with their titles, in the order of the page and of lists."""

MAIN_GROUP = "main"
"""The group whose controls are always visible."""

PROMPT_GROUP = "prompt"
"""The group of settings that are shown next to the prompt, and only where they matter."""

COLLAPSED = {
    "weights": "Weights",
    "length": "Length and stopping",
    "sampling": "More sampling filters",
    "penalties": "Penalties",
    "tokens": "Tokens: ban, bias, force",
    "advanced": "Guidance and numerics",
}
"""The other groups, each collapsed under its title."""

GROUPS = (MAIN_GROUP, PROMPT_GROUP, *COLLAPSED)


def require_one_of(what: str, name: str, allowed: Iterable[str]) -> str:
    """Return ``name`` if it is allowed.

    Args:
        what: subject of the error message.
        name: the declared name.
        allowed: the valid names.

    Raises:
        ValueError: it is not allowed. The message lists the valid names and the nearest one.
    """
    names = list(allowed)
    if name in names:
        return name
    near = suggest_name(name, names)
    hint = f"; {near}" if near else ""
    # A declaration is code, not user input, so a wrong name fails at import.
    raise ValueError(f"{what} = {name!r} is not one of {', '.join(names)}{hint}.")
