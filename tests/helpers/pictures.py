"""Files of pictures and sounds that a test gives to a model, good ones and such as nobody should send."""

from __future__ import annotations

import io
import struct
import wave
import zlib

import numpy as np
from PIL import Image

RED = (200, 30, 40)


def picture_file(width: int = 64, height: int = 48, kind: str = "PNG", seed: int = 0) -> bytes:
    """Return a picture of noise: a small file of it would be no test of memory."""
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def sound_file(seconds: float = 0.5, rate: int = 16_000, pitch: float = 440.0) -> bytes:
    """Return a tone as a WAV file of 16 bits."""
    at = np.arange(int(seconds * rate)) / rate
    samples = (0.5 * np.sin(2 * np.pi * pitch * at) * 32_767).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(rate)
        writer.writeframes(samples.tobytes())
    return file.getvalue()


def bomb(width: int = 60_000, height: int = 60_000) -> bytes:
    """Return a small PNG that says it has more pixels than any memory holds."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress(b"\0" * 100_000)
    end = chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + end


def animation() -> bytes:
    """Return a GIF of two frames."""
    frames = [Image.new("RGB", (8, 8), colour) for colour in (RED, (0, 0, 0))]
    file = io.BytesIO()
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:])
    return file.getvalue()


HOSTILE = {
    "nothing": ("image", b""),
    "text": ("image", b"no picture at all"),
    "page": ("image", b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"),
    "cut": ("image", picture_file()[:900]),
    "bomb": ("image", bomb()),
    "animation": ("image", animation()),
    "postscript": ("image", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n"),
    "path": ("image", b"/etc/passwd"),
    "silence of no length": ("audio", sound_file(0.0)),
    "picture": ("audio", picture_file()),
    "cut sound": ("audio", sound_file()[:40]),
    "long sound": ("audio", sound_file(40.0, 4000)),
}
"""Name -> (what it is sent as, the file)."""
