"""The GPU decorator is used where a ZeroGPU is and harmless elsewhere."""

from __future__ import annotations

import asyncio
import pickle
import sys
import types

from engine import DecodeRequest
from engine.one_shot_thread import run_in_thread
from engine.run.decoding import trace_of
from engine.strategies import STRATEGIES
from playground.jobs.zerogpu import on_gpu
from playground.server import api, openai_stream, tools
from playground.server.api_schema import TOOL_FIELDS


def handler():
    yield "x"


def test_elsewhere_it_is_the_handler_itself(monkeypatch):
    monkeypatch.delenv("SPACES_ZERO_GPU", raising=False)
    assert on_gpu(handler) is handler
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    monkeypatch.setitem(sys.modules, "spaces", None)
    assert on_gpu(handler) is handler


def test_a_call_of_an_endpoint_gets_the_gpu(monkeypatch):
    registered = {}
    for module in (api, tools):
        monkeypatch.setattr(module, "on_gpu", lambda function: ("gpu", function.__name__))
        monkeypatch.setattr(module, "guard_handler", lambda handler: handler)
        monkeypatch.setattr(
            module,
            "add_typed_endpoint",
            lambda handler, name, *described, **options: registered.update({name: handler}),
        )
    api.add_endpoints()
    tools.add_tools()
    assert registered == {name: ("gpu", name) for name in (*STRATEGIES, *TOOL_FIELDS)}


def test_a_run_of_an_openai_client_gets_the_gpu(monkeypatch):
    crossed = []

    def gpu(duration):
        def decorate(function):
            def run(*args):
                # As between two processes.
                for batch in function(*pickle.loads(pickle.dumps(args))):
                    crossed.append(pickle.dumps(batch))
                    yield pickle.loads(crossed[-1])

            return run

        return decorate

    async def is_disconnected():
        return False

    async def read():
        request = types.SimpleNamespace(client=None, headers={}, is_disconnected=is_disconnected)
        wanted = DecodeRequest("greedy", "storyteller", "Once", params={"max_new_tokens": 3})
        return [batch async for batch in openai_stream.stream_events(wanted, request, 0.0)]

    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    monkeypatch.setitem(sys.modules, "spaces", types.SimpleNamespace(GPU=gpu))
    openai_stream._decode_on_gpu.cache_clear()
    try:
        batches = run_in_thread(lambda: asyncio.run(read()))
    finally:
        openai_stream._decode_on_gpu.cache_clear()
    assert len(crossed) == len(batches)
    assert len(trace_of(batches[-1][-1]).outputs[0].token_ids) == 3


def test_on_a_zerogpu_the_platform_runs_it(monkeypatch):
    seen = {}

    def gpu(duration):
        seen["duration"] = duration
        return lambda function: lambda *args: ["gpu", *function(*args)]

    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    monkeypatch.setitem(sys.modules, "spaces", types.SimpleNamespace(GPU=gpu))
    assert on_gpu(handler)() == ["gpu", "x"]
    assert 0 < seen["duration"] <= 120
