"""The run as a few lines of generate() that print the text while it is written."""

from __future__ import annotations

from engine.errors import ExportError
from engine.export.plan import Plan
from engine.export.short_script import is_from_chat_template, short_code


def describe_no_stream(plan: Plan) -> str | None:
    """Return the reason why a run cannot be streamed; None if it can."""
    if plan.has_folder:
        return "The run needs a separate decoding loop, which sends no tokens to a streamer."
    if (plan.values.get("num_beams") or 1) > 1 or plan.config.num_return_sequences > 1:
        return "A streamer prints one text that only grows, and this run has several sequences."
    if plan.media is not None or not (plan.trace.prompt or is_from_chat_template(plan.trace)):
        return "A streamed script begins with a text or a conversation, and this run did not."
    return None


def stream_script(plan: Plan) -> str:
    """Return a script that prints the run's text token by token.

    Raises:
        ExportError: the run cannot be streamed.
    """
    reason = describe_no_stream(plan)
    lines = None if reason else short_code(plan, streams=True)
    if lines is None:
        raise ExportError(reason or "The run needs code that cannot be written in a few lines.")
    return f'"""The run, printed while it is written."""\n\n{lines}\n'
