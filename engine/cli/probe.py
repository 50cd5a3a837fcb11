"""The command ``probe``: says what a model server reports."""

from __future__ import annotations

import argparse

from engine.cli.argument_values import Commands, escape_controls


def add(commands: Commands) -> None:
    """Add the command ``probe``."""
    command = commands.add_parser("probe", help="say what a model server reports, in one line")
    command.add_argument("address", help="base address, such as http://127.0.0.1:8080/v1")
    command.add_argument("--model", required=True, metavar="NAME", help="its name on the server")
    command.set_defaults(handler=_run)


def _run(arguments: argparse.Namespace) -> None:
    from engine.endpoints.http_client import EndpointClient
    from engine.endpoints.probe import probe
    from engine.endpoints.server_lookup import ModelServer
    from engine.sources.endpoint_address import EndpointAddress

    with EndpointClient(EndpointAddress.parse(arguments.address)) as client:
        found = probe(ModelServer(client, arguments.model))
    print(escape_controls(str(found.describe())))
