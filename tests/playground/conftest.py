"""A real server without a browser, and a client that speaks to it as any program would."""

from __future__ import annotations

import pytest

from tests.helpers.client import Client
from tests.helpers.server import playground


@pytest.fixture(scope="module")
def open_server(served_here):
    """Return a client of a server in this process, and Gradio's app."""
    url, app = served_here
    client = Client(url)
    yield client, app
    client.http.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    with playground(tmp_path_factory.mktemp("server") / "log.txt") as url:
        client = Client(url)
        yield client
        client.http.close()
