"""Methods of the hub that are known by name: transformers' own recipes, and those that the owner allows."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

from engine.settings import SETTINGS

COMMIT = re.compile(r"[0-9a-f]{40}", re.ASCII)
SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_LOG = logging.getLogger("engine")


@dataclass(frozen=True)
class HubRecipe:
    """A strategy that transformers has moved to a repository of its own.

    Attributes:
        title: what it is.
        tab: the strategy of this playground that does the same.
        commit: that is taken where nothing else is asked for; None for the newest at first use.
    """

    title: str
    tab: str
    commit: str | None = None


RECIPES = {
    "transformers-community/contrastive-search": HubRecipe(
        "Contrastive search as transformers keeps it", "contrastive_search"
    ),
    "transformers-community/dola": HubRecipe("DoLa as transformers keeps it", "dola"),
    "transformers-community/group-beam-search": HubRecipe(
        "Diverse beam search as transformers keeps it", "diverse_beam_search"
    ),
    "transformers-community/constrained-beam-search": HubRecipe(
        "Beam search with words that must occur, as transformers keeps it", "beam_search"
    ),
}
"""Repository -> what it is."""


@dataclass(frozen=True)
class AllowedMethod:
    """A method of the hub that the owner of a deployment allows, by its commit and the hash of its code."""

    repository: str
    commit: str
    sha256: str

    @property
    def name(self) -> str:
        """As it is asked for in full."""
        return f"{self.repository}@{self.commit}"


def allowed() -> tuple[AllowedMethod, ...]:
    """Return the methods that the owner allows; an entry that is not written out in full is none."""
    found = []
    for entry in SETTINGS.allowed_methods.split():
        name, _, sha256 = entry.lower().partition("#")
        commit = name.rpartition("@")[2]
        if COMMIT.fullmatch(commit) and SHA256.fullmatch(sha256):
            found.append(AllowedMethod(entry.partition("@")[0], commit, sha256))
        else:
            _LOG.error(
                "PLAYGROUND_ALLOWED_METHODS: %s is left out; it must be owner/name@commit#sha256",
                entry,
            )
    return tuple(found)


def allowed_as(name: str) -> AllowedMethod | None:
    """Return what the owner allows by a name, ``owner/name`` or ``owner/name@commit``; None where nothing is."""
    return next((found for found in allowed() if name in (found.repository, found.name)), None)
