"""Known methods of the hub: transformers' own recipes, and those that a deployment allows."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

from engine.settings import SETTINGS

COMMIT_PATTERN = re.compile(r"[0-9a-f]{40}", re.ASCII)
SHA256_PATTERN = re.compile(r"[0-9a-f]{64}", re.ASCII)
_LOG = logging.getLogger("engine")


@dataclass(frozen=True)
class HubRecipe:
    """A strategy that transformers has moved to a repository.

    Attributes:
        title: short description.
        tab: the strategy of this playground that does the same.
        commit: the default commit; None for the newest one at first use.
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
"""Repository -> its recipe."""


@dataclass(frozen=True)
class AllowedMethod:
    """A hub method that a deployment allows, with its commit and the hash of its code."""

    repository: str
    commit: str
    sha256: str

    @property
    def name(self) -> str:
        """Its full name, ``owner/name@commit``."""
        return f"{self.repository}@{self.commit}"


def list_allowed_methods() -> tuple[AllowedMethod, ...]:
    """Return the methods that this deployment allows; incomplete entries are logged and ignored."""
    found = []
    for entry in SETTINGS.allowed_methods.split():
        name, _, sha256 = entry.lower().partition("#")
        commit = name.rpartition("@")[2]
        if COMMIT_PATTERN.fullmatch(commit) and SHA256_PATTERN.fullmatch(sha256):
            # A repository's name keeps its case; commits and hashes have none.
            found.append(AllowedMethod(entry.partition("@")[0], commit, sha256))
        else:
            _LOG.error(
                "PLAYGROUND_ALLOWED_METHODS: %s is left out; it must be owner/name@commit#sha256",
                entry,
            )
    return tuple(found)


def find_allowed_method(name: str) -> AllowedMethod | None:
    """Return the allowed method named ``owner/name`` or ``owner/name@commit``, else None."""
    return next(
        (found for found in list_allowed_methods() if name in (found.repository, found.name)), None
    )
