"""Progress on stderr: one rewritten line in a terminal, otherwise one line per subject."""

from __future__ import annotations

import shutil
import sys

from engine.cli.argument_values import escape_controls
from engine.run.rate import TransferRate, format_time_left

_BAR_CELLS = 24
_PERCENT_STEP = 25
"""Percentage points between two lines of progress without a terminal."""


class StatusLine:
    """A status text that the next one replaces; as a context manager it clears it at the end."""

    def __init__(self) -> None:
        self.live, self.last, self.open = sys.stderr.isatty(), "", False

    def __enter__(self) -> StatusLine:
        return self

    def __exit__(self, *raised: object) -> None:
        self.end()

    def show(self, text: str, about: str, before: str = "") -> None:
        """Show a status text.

        Args:
            text: one line.
            about: its subject; without a terminal, a repeated subject is skipped.
            before: text to write first, such as a line break.
        """
        if not self.live and about == self.last:
            return
        start, end = ("\r\033[K", "") if self.live else ("", "\n")
        sys.stderr.write(before + start + text + end)
        sys.stderr.flush()
        self.last, self.open = about, self.live

    def end(self) -> None:
        """Clear the status line of a terminal."""
        if self.open:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
            self.open = False


class DownloadBar:
    """Progress of a download on a status line: bar, bytes and time left."""

    def __init__(self, line: StatusLine) -> None:
        self.line, self.what = line, ""
        self.rate = TransferRate()

    def show_progress(self, what: str, done: int, total: int) -> None:
        """Show the progress.

        Args:
            what: description of the current work; a new one resets the rate.
            done: bytes so far.
            total: bytes in all, 0 if unknown.
        """
        if what != self.what:
            self.what, self.rate = what, TransferRate()
        if not total:
            self._show(f"{what}…", what)
            return
        part = min(1.0, done / total)
        filled = round(part * _BAR_CELLS)
        bar = "█" * filled + "░" * (_BAR_CELLS - filled)
        left = format_time_left(done, total, self.rate.per_second(done))
        text = f"{what} {bar} {done / 1e6:.0f} of {total / 1e6:.0f} MB{left}"
        self._show(text, f"{what} {int(part * 100) // _PERCENT_STEP}")

    def _show(self, text: str, about: str) -> None:
        text = escape_controls(text)
        if self.line.live:
            # A line that wraps could not be rewritten.
            text = text[: max(1, shutil.get_terminal_size().columns - 1)]
        self.line.show(text, about)
