"""A decoded sound, the input of a speech model."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

MIN_RATE, MAX_RATE = 4000, 192_000
"""Allowed sample rates in Hz."""


@dataclass(frozen=True, eq=False)
class Sound:
    """Decoded samples with their hash.

    Attributes:
        samples: shape (n,), float32, mono, in [-1, 1]; read-only.
        rate: original sample rate, MIN_RATE to MAX_RATE Hz.
        sha256: hex digest of rate and samples.
        example: name of the built-in example, else None.
    """

    samples: np.ndarray
    rate: int
    sha256: str
    example: str | None = None

    @property
    def seconds(self) -> float:
        """Duration in seconds."""
        return len(self.samples) / self.rate

    def resample(self, rate: int) -> np.ndarray:
        """Resample the sound.

        Args:
            rate: target sample rate in Hz.

        Returns:
            A new float32 array of about n * rate / self.rate samples. Interpolation may go slightly
            beyond [-1, 1].
        """
        if rate == self.rate:
            return self.samples.copy()
        import soxr

        return soxr.resample(self.samples, self.rate, rate, quality="HQ")

    def memory_bytes(self) -> int:
        """Return the memory of the samples in bytes."""
        return self.samples.nbytes


def make_sound(samples: np.ndarray, rate: int, example: str | None = None) -> Sound:
    """Make a Sound with its hash; ``samples`` becomes read-only.

    Args:
        samples: see ``Sound.samples``.
        rate: sample rate in Hz.
        example: name of the built-in example, if it is one.
    """
    samples.flags.writeable = False
    digest = hashlib.sha256(f"{rate} Hz\n".encode())
    # Little-endian on every machine, so that hashes agree.
    digest.update(samples.astype("<f4", copy=False).tobytes())
    return Sound(samples, rate, digest.hexdigest(), example)
