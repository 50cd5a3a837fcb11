"""A sound as a model is given it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

MIN_RATE, MAX_RATE = 4000, 192_000
"""Hz."""


@dataclass(frozen=True, eq=False)
class Sound:
    """Samples, and what they are known by.

    Attributes:
        samples: (n,) float32, one channel, in [-1, 1]; they cannot be written to.
        rate: samples a second as given, MIN_RATE to MAX_RATE Hz.
        sha256: hex, of rate and samples.
        example: name of the example that it is, None for any other.
    """

    samples: np.ndarray
    rate: int
    sha256: str
    example: str | None = None

    @property
    def seconds(self) -> float:
        """How long it is."""
        return len(self.samples) / self.rate

    def at(self, rate: int) -> np.ndarray:
        """Return it with another number of samples a second.

        Args:
            rate: Hz.

        Returns:
            (about n * rate / self.rate,) float32 of its own; between two samples it may go a little beyond [-1, 1].
        """
        if rate == self.rate:
            return self.samples.copy()
        import soxr

        return soxr.resample(self.samples, self.rate, rate, quality="HQ")

    def bytes(self) -> int:
        """Return the memory it takes."""
        return self.samples.nbytes


def sound(samples: np.ndarray, rate: int, example: str | None = None) -> Sound:
    """Return samples with their hash; nobody can write to them any more.

    Args:
        samples: as ``Sound.samples``.
        rate: Hz.
        example: its name, where it is one.
    """
    samples.flags.writeable = False
    digest = hashlib.sha256(f"{rate} Hz\n".encode())
    digest.update(samples.astype("<f4", copy=False).tobytes())
    return Sound(samples, rate, digest.hexdigest(), example)
