"""Logging without visitors' data, as text or as one JSON object per line.

The project's own lines are complete. Library lines lose their arguments, which may be a visitor's
text. Exceptions lose their messages, which may quote a prompt. No line contains an address.
"""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
import time
import traceback
import warnings
from types import TracebackType
from typing import Any, TextIO

from engine.settings import Settings

TEXT, JSON = FORMATS = ("text", "json")
_DEFAULT_LEVEL = {TEXT: "warning", JSON: "info"}
_LEVELS = ("debug", "info", "warning", "error")
_OWN_LOGGERS = ("engine", "playground")
_STREAMS = ("stdout", "stderr")
_MAX_CHARS = 200
_EXTRA_FIELDS = (
    *("run", "strategy", "outcome", "code", "error", "reference", "seconds", "tokens"),
    *("queue_s", "load_s", "first_token_s", "total_s"),
)
"""Extra record attributes that become JSON fields."""
_MAKE_RECORD = logging.getLogRecordFactory()


def set_up_logging(settings: Settings) -> None:
    """Set up logging for this process; call it once, before any thread starts.

    Raises:
        ValueError: a setting is not valid; the message names it.
    """
    form = _check_choice("log_format", settings.log_format, FORMATS)
    level = _check_choice("log_level", settings.log_level or _DEFAULT_LEVEL[form], _LEVELS)
    out = sys.stderr
    handler = logging.StreamHandler(out)
    handler.setFormatter(JsonFormatter() if form == JSON else TextFormatter())
    logging.setLogRecordFactory(make_safe_record)
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    for name in _OWN_LOGGERS:
        logging.getLogger(name).setLevel(level.upper())
    sys.excepthook = _log_uncaught
    threading.excepthook = lambda args: _log_uncaught(
        args.exc_type, args.exc_value, args.exc_traceback
    )
    sys.unraisablehook = lambda args: _log_uncaught(
        args.exc_type, args.exc_value, args.exc_traceback
    )
    warnings.showwarning = _log_warning
    _redirect_library_logs()
    if form == JSON:
        # The handler above keeps the real stderr.
        sys.stdout, sys.stderr = (JsonStream(name, out) for name in _STREAMS)


def _check_choice(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        variable = f"PLAYGROUND_{name.upper()}"
        raise ValueError(f"{variable} = {value!r} is not one of {', '.join(allowed)}")
    return value


def make_safe_record(*args: Any, **values: Any) -> logging.LogRecord:
    """Return a log record without visitors' data: the record factory of all loggers."""
    # Cleaned when the record is created, because libraries have handlers of their own.
    record = _MAKE_RECORD(*args, **values)
    if record.name.partition(".")[0] not in _OWN_LOGGERS:
        record.msg = (str(record.msg).splitlines() or [""])[0][:_MAX_CHARS]
        record.args = None
    if record.exc_info:
        kind, error, frames = record.exc_info
        record.exc_text = format_traceback(kind, error, frames) if kind else None
        record.exc_info = None
    return record


def format_traceback(
    kind: type[BaseException], error: BaseException | None, frames: TracebackType | None
) -> str:
    """Format a traceback with the exception's type, but without its message and causes."""
    del error
    return "".join(
        ["Traceback (most recent call last):\n", *traceback.format_tb(frames), kind.__name__]
    )


class TextFormatter(logging.Formatter):
    """Text lines: time, level, logger and message."""

    converter = staticmethod(time.gmtime)

    def __init__(self) -> None:
        super().__init__("%(asctime)sZ %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")


class JsonFormatter(logging.Formatter):
    """Lines with one JSON object each."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a JSON object."""
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        about = {
            "time": f"{at}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        about |= {name: getattr(record, name) for name in _EXTRA_FIELDS if hasattr(record, name)}
        if record.exc_text:
            about["traceback"] = record.exc_text
        return json.dumps(about, default=str)


class JsonStream(io.TextIOBase):
    """A replacement of stdout or stderr that writes each printed line as a JSON object.

    Args:
        name: the stream's name, used as the logger.
        out: receives the JSON lines.
    """

    def __init__(self, name: str, out: TextIO) -> None:
        self._name, self._out = name, out
        self._lock = threading.RLock()
        self._begun = ""

    def write(self, text: str, /) -> int:
        """Buffer a text and write its complete lines; return its length."""
        with self._lock:
            *whole, self._begun = (self._begun + text).split("\n")
            for line in filter(str.strip, whole):
                record = logging.LogRecord(self._name, logging.INFO, "", 0, line, None, None)
                self._out.write(JsonFormatter().format(record) + "\n")
        return len(text)

    def flush(self) -> None:
        """Flush the output; an incomplete line stays buffered."""
        self._out.flush()

    def fileno(self) -> int:
        """Return the file descriptor of the output."""
        return self._out.fileno()


def _log_uncaught(
    kind: type[BaseException], error: BaseException | None, frames: TracebackType | None
) -> None:
    logging.getLogger("playground").error(
        "not caught: %s", kind.__name__, exc_info=(kind, error or kind(), frames)
    )


def _log_warning(
    message: Any, category: type[Warning], filename: str, lineno: int, *_: Any, **__: Any
) -> None:
    del message
    about = (category.__name__, filename.rpartition("site-packages/")[2], lineno)
    logging.getLogger("playground").warning("%s in %s, line %d", *about)


class _SafeTraceback:
    """Replacement of the module ``traceback`` in Gradio, which would print exception messages."""

    def __getattr__(self, name: str) -> Any:
        return getattr(traceback, name)

    @staticmethod
    def print_exc(*_: Any, **__: Any) -> None:
        """Log the current exception without its message."""
        kind = (sys.exc_info()[0] or Exception).__name__
        about = {"error": kind}
        logging.getLogger("playground").error(
            "a request failed: %s", kind, exc_info=True, extra=about
        )


def _redirect_library_logs() -> None:
    """Route uvicorn's lines and Gradio's exceptions to this log."""
    from gradio import queueing, route_utils, routes, utils
    from uvicorn import config

    # uvicorn applies this dict when its server starts.
    for logger in config.LOGGING_CONFIG["loggers"].values():
        logger.update(handlers=[], propagate=True)
    for module in (queueing, route_utils, routes, utils):
        module.traceback = _SafeTraceback()  # type: ignore[attr-defined]
