"""What goes on meanwhile, on stderr: one line that changes in a terminal, elsewhere a line for each new thing."""

from __future__ import annotations

import shutil
import sys

from engine.cli.values import printable
from engine.run.rate import Rate, rest

_CELLS = 24
_PART = 25
"""Per cent of the bytes between two lines where no terminal reads them."""


class StatusLine:
    """One status, replaced by the next; used as a context manager it leaves a terminal clean."""

    def __init__(self) -> None:
        self.live, self.last, self.open = sys.stderr.isatty(), "", False

    def __enter__(self) -> StatusLine:
        return self

    def __exit__(self, *raised: object) -> None:
        self.end()

    def show(self, text: str, about: str, before: str = "") -> None:
        """Show a text.

        Args:
            text: one line.
            about: of what it tells; without a terminal a text about the same as the last is left out.
            before: written ahead of it.
        """
        if not self.live and about == self.last:
            return
        start, end = ("\r\033[K", "") if self.live else ("", "\n")
        sys.stderr.write(before + start + text + end)
        sys.stderr.flush()
        self.last, self.open = about, self.live

    def end(self) -> None:
        """Clear the line of a terminal for what comes next."""
        if self.open:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
            self.open = False


class BytesLine:
    """How many bytes of a thing have come: a bar, the rate and the time left, on a status line."""

    def __init__(self, line: StatusLine) -> None:
        self.line, self.what = line, ""
        self.rate = Rate()

    def tell(self, what: str, done: int, total: int) -> None:
        """Show how far it is.

        Args:
            what: goes on.
            done: bytes.
            total: bytes, 0 where that is not known.
        """
        if what != self.what:
            self.what, self.rate = what, Rate()
        if not total:
            self._show(f"{what}…", what)
            return
        part = min(1.0, done / total)
        filled = round(part * _CELLS)
        bar = "█" * filled + "░" * (_CELLS - filled)
        left = rest(done, total, self.rate.of(done))
        text = f"{what} {bar} {done / 1e6:.0f} of {total / 1e6:.0f} MB{left}"
        self._show(text, f"{what} {int(part * 100) // _PART}")

    def _show(self, text: str, about: str) -> None:
        text = printable(text)
        if self.line.live:
            # A line that wraps could not be replaced.
            text = text[: max(1, shutil.get_terminal_size().columns - 1)]
        self.line.show(text, about)
