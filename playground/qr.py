"""A text as a QR code, made here: no service on the network is asked to draw one."""

from __future__ import annotations

MAX_CHARS = 300


def modules(text: str) -> list[str]:
    """Return the rows of a QR code, ``1`` for dark and ``0`` for light, without the quiet zone around it.

    Args:
        text: 1 to ``MAX_CHARS`` characters.

    Raises:
        ValueError: it is longer, or empty.
    """
    import segno

    if not 0 < len(text) <= MAX_CHARS:
        raise ValueError(f"A QR code is made of 1 to {MAX_CHARS} characters.")
    # A quarter of it may be lost: it is photographed from the last row.
    code = segno.make_qr(text, error="q")
    return ["".join(str(int(module)) for module in row) for row in code.matrix]
