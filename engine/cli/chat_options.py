"""Options of ``run`` for a conversation: its messages and the arguments of the chat template."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from engine.cli.argument_values import parse_settings
from engine.errors import ParameterError
from engine.messages import Message
from engine.settings import SETTINGS


def add_chat_options(parser: argparse.ArgumentParser) -> None:
    """Add the conversation options to a parser."""
    chat = parser.add_argument_group(
        "conversation in the model's chat template, instead of --prompt"
    )
    chat.add_argument("--system", metavar="TEXT", help="system message, placed first")
    chat.add_argument(
        "--message",
        action="append",
        default=[],
        metavar="TEXT",
        dest="said",
        help="user message; repeat the option for more messages",
    )
    chat.add_argument(
        "--chat-file",
        metavar="FILE",
        help="JSON list of messages with role and content, placed before --message; the model "
        "continues a final assistant message",
    )
    chat.add_argument(
        "--template",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="chat template argument, such as enable_thinking=false",
    )


def chat_request_fields(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the request fields ``messages`` and ``template``; empty without a conversation.

    Raises:
        ParameterError: the file cannot be read, is too large or holds no list, or template
            arguments come without messages.
    """
    asked = arguments.system is not None or arguments.said or arguments.chat_file is not None
    if not asked and arguments.template:
        raise ParameterError(
            "--template", arguments.template[0], "it needs --message or --chat-file"
        )
    if not asked:
        return {}
    system = [] if arguments.system is None else [{"role": "system", "content": arguments.system}]
    before = [] if arguments.chat_file is None else _read_messages(arguments.chat_file)
    after = [{"role": "user", "content": text} for text in arguments.said]
    template = parse_settings(arguments.template, "--template")
    return {"messages": [*system, *before, *after], "template": template}


def _read_messages(name: str) -> list[Any]:
    limit = SETTINGS.max_request_bytes
    try:
        with Path(name).open("rb") as file:
            data = file.read(limit + 1)  # one byte more shows that the file is too large
    except OSError as error:
        raise ParameterError(
            "--chat-file", name, Message("it cannot be read: {strerror}", strerror=error.strerror)
        ) from None
    if len(data) > limit:
        raise ParameterError("--chat-file", name, Message("it may have {limit} bytes", limit=limit))
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list):
        raise ParameterError("--chat-file", name, "it must hold a JSON list of messages")
    return found
