"""Which strategies have a parameter, for messages about one that another strategy lacks."""

from __future__ import annotations

from engine.declare.params import params_of
from engine.messages import Message, join_words
from engine.strategies import STRATEGIES


def describe_owners(name: object) -> str:
    """Return in which tabs a parameter is, "" if no strategy has it."""
    titles = [s.tab for s in STRATEGIES.values() if name in params_of(s.config)]
    if not titles:
        return ""
    template = "it is in the tab {tabs}" if len(titles) == 1 else "it is in the tabs {tabs}"
    return Message(template, tabs=join_words(titles))
