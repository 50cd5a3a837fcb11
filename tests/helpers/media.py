"""Pictures and sounds made for tests, whole ones and ones that lie."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

PNG = b"\x89PNG\r\n\x1a\n"
RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def saved(image: Image.Image, kind: str = "PNG", **how: Any) -> bytes:
    """Return an image as a file."""
    file = io.BytesIO()
    image.save(file, kind, **how)
    return file.getvalue()


def corners(width: int = 6, height: int = 4) -> Image.Image:
    """Return white with another colour in each corner but one, so that every turn shows."""
    image = Image.new("RGB", (width, height), WHITE)
    image.putpixel((0, 0), RED)
    image.putpixel((width - 1, 0), GREEN)
    image.putpixel((0, height - 1), BLUE)
    return image


def noise(width: int, height: int, seed: int = 0) -> Image.Image:
    """Return what no coding makes smaller."""
    values = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(values)


def chunk(name: bytes, data: bytes) -> bytes:
    """Return a chunk of a PNG."""
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(
    width: int, height: int, rows: bytes, *, bits: int = 8, colour: int = 2, more: bytes = b""
) -> bytes:
    """Return a PNG that says what it is told to say.

    Args:
        width: in its header, whatever ``rows`` hold.
        height: likewise.
        rows: with a filter byte before each.
        bits: of a channel.
        colour: 0 grey, 2 RGB, 4 grey with alpha.
        more: chunks before the pixels.
    """
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0))
    return PNG + head + more + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def tiff(entries: list[tuple[int, int, int, int]], data: bytes = b"") -> bytes:
    """Return a TIFF of (tag, type, count, value or offset); its data begin at byte 8."""
    table = b"".join(struct.pack("<HHII", *entry) for entry in sorted(entries))
    head = b"II*\0" + struct.pack("<I", 8 + len(data))
    return head + data + struct.pack("<H", len(entries)) + table + bytes(4)


def exif(orientation: int, more: list[tuple[int, int, int, int]] | None = None) -> bytes:
    """Return EXIF that says how a picture is turned."""
    return b"Exif\0\0" + tiff([(0x112, 3, 1, orientation), *(more or [])])


def greedy_exif(size: int, entries: int) -> Iterator[bytes]:
    """Yield the parts of EXIF of a JPEG, each a segment, that ask for ``entries`` times its size."""
    asked = [(0x8000 + n, 7, size // 2, 8) for n in range(entries)]
    whole = tiff([(0x112, 3, 1, 1), *asked], bytes(size))
    for at in range(0, len(whole), 60_000):
        part = b"Exif\0\0" + whole[at : at + 60_000]
        yield b"\xff\xe1" + struct.pack(">H", len(part) + 2) + part


def with_segments(jpeg: bytes, *segments: bytes) -> bytes:
    """Return a JPEG with segments behind its first mark."""
    return jpeg[:2] + b"".join(segments) + jpeg[2:]


def huge(kind: str, side: int) -> bytes:
    """Return a small file of a kind that says it is a square of so many pixels."""
    small = Image.new("RGB", (8, 8), RED)
    two, four = struct.pack("<H", side % 2**16), struct.pack("<I", side)
    if kind == "PNG":
        return png(side, side, bytes(10_000))
    if kind == "GIF":
        data = bytearray(saved(small, kind))
        data[6:10] = two + two
        return bytes(data)
    if kind == "BMP":
        data = bytearray(saved(small, kind))
        data[18:26] = four + four
        return bytes(data)
    if kind == "JPEG":
        data = bytearray(saved(small, kind))
        at = data.index(b"\xff\xc0") + 5
        data[at : at + 4] = struct.pack(">HH", side, side)
        return bytes(data)
    if kind == "WEBP":
        data = bytearray(saved(small, kind, lossless=True))
        at = data.index(b"VP8L") + 9
        data[at : at + 4] = struct.pack("<I", (side - 1) | (side - 1) << 14)
        return bytes(data)
    entries = [(256, 4, 1, side), (257, 4, 1, side), (258, 3, 1, 8), (259, 3, 1, 8)]
    entries += [(262, 3, 1, 1), (273, 4, 1, 8), (278, 4, 1, side), (279, 4, 1, 100)]
    return tiff(entries, bytes(100))


def tone(seconds: float = 0.5, rate: int = 16_000, hertz: float = 440.0) -> np.ndarray:
    """Return (n,) float32, a sine of half the loudness there is."""
    at = np.arange(round(seconds * rate)) / rate
    return (0.5 * np.sin(2 * np.pi * hertz * at)).astype(np.float32)


def recorded(
    samples: np.ndarray, rate: int = 16_000, kind: str = "WAV", coding: str | None = None
) -> bytes:
    """Return samples as a file."""
    import soundfile

    file = io.BytesIO()
    soundfile.write(file, samples, rate, format=kind, subtype=coding)
    return file.getvalue()


def wav(rate: int, channels: int, bits: int, data: bytes, *, said: int | None = None) -> bytes:
    """Return a WAV of integers whose header says that there are ``said`` bytes of samples."""
    size = len(data) if said is None else said
    frame = channels * bits // 8
    form = struct.pack("<HHIIHH", 1, channels, rate, (rate * frame) % 2**32, frame, bits)
    body = b"WAVEfmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", size) + data
    return b"RIFF" + struct.pack("<I", min(36 + size, 2**32 - 1)) + body


def _memory_mb(what: str) -> float:
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) * 1024 / 1e6


@contextmanager
def memory_of() -> Iterator[dict[str, float]]:
    """Hold a block whose memory is measured.

    Yields:
        A mapping that has, afterwards, how many megabytes more this process took at its height (``most``), and
        still takes (``kept``).
    """
    Path("/proc/self/clear_refs").write_text("5")
    before, told = _memory_mb("VmRSS"), {}
    yield told
    told["most"] = _memory_mb("VmHWM") - before
    told["kept"] = _memory_mb("VmRSS") - before
