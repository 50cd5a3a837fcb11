"""QR codes, generated locally without a network service."""

from __future__ import annotations

from engine.messages import Message

MAX_CHARS = 300


def qr_rows(text: str) -> list[str]:
    """Return the rows of a QR code, ``1`` for dark and ``0`` for light, without the quiet zone.

    Args:
        text: 1 to ``MAX_CHARS`` characters.

    Raises:
        ValueError: The text is empty or too long.
    """
    import segno

    if not 0 < len(text) <= MAX_CHARS:
        raise ValueError(Message("A QR code is made of 1 to {most} characters.", most=MAX_CHARS))
    # Level Q survives the loss of a quarter: students photograph the code from the last row.
    code = segno.make_qr(text, error="q")
    return ["".join(str(int(module)) for module in row) for row in code.matrix]
