"""Agents: the strategies as tools of the Model Context Protocol, called by the package's own client."""

from __future__ import annotations

import ast
import asyncio

import mcp
import pytest

from engine import DecodeRequest
from engine.one_shot_thread import run_in_thread
from engine.run.decoding import decode_to_trace
from engine.strategies import STRATEGIES
from playground.server.api_schema import CALL_FIELDS, TOOL_FIELDS
from tests.helpers.sentences import clean
from tests.helpers.server import playground

pytestmark = pytest.mark.nightly


async def converse(url):
    """Return the tools, the answers of a call and of a wrong call."""
    from mcp.client.streamable_http import streamable_http_client

    async with (
        streamable_http_client(f"{url}/gradio_api/mcp/") as (reads, writes, _),
        mcp.ClientSession(reads, writes) as session,
    ):
        await session.initialize()
        tools = (await session.list_tools()).tools
        given = {"prompt": "Once upon a time", "params": {"max_new_tokens": 8, "num_beams": 3}}
        found = await session.call_tool("beam_search", given)
        # Each value is in its range, so that only the engine can refuse them.
        refused = {"prompt": "Once", "params": {"max_new_tokens": 3, "min_new_tokens": 9}}
        wrong = await session.call_tool("greedy", refused)
        return tools, found, wrong


def test_the_strategies_are_tools(tmp_path):
    with playground(tmp_path / "log.txt", mcp=True) as url:
        # Playwright leaves a running loop in the thread of the tests.
        tools, found, wrong = run_in_thread(lambda: asyncio.run(converse(url)))
    assert [tool.name for tool in tools] == [*STRATEGIES, *TOOL_FIELDS]
    for tool in tools[: len(STRATEGIES)]:
        assert STRATEGIES[tool.name].title in tool.description
        assert tuple(tool.inputSchema["properties"]) == CALL_FIELDS
        assert tool.inputSchema["required"] == ["prompt"]
        assert all(one["description"] for one in tool.inputSchema["properties"].values())
    params = {"max_new_tokens": 8, "num_beams": 3}
    run = decode_to_trace(DecodeRequest("beam_search", prompt="Once upon a time", params=params))
    assert not found.isError
    assert ast.literal_eval(found.content[0].text)["outputs"][0]["text"] == run.outputs[0].text
    assert wrong.isError
    assert "min_new_tokens = 9" in clean(wrong.content[0].text)


def test_without_the_setting_there_are_no_tools(server):
    assert server.post("/gradio_api/mcp/", json={}).status_code in (404, 405)
