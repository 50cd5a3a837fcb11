"""The page leaves nothing out that is declared: tabs and endpoints."""

from __future__ import annotations

import asyncio

import gradio as gr
import pytest

from engine.declare.groups import STRATEGY_GROUPS
from engine.one_shot_thread import run_in_thread
from engine.strategies import STRATEGIES
from playground.app import build_app


@pytest.fixture(scope="module")
def page():
    async def build():
        return build_app()

    # As for one tab alone: where no event loop runs, Gradio makes some that it never closes.
    return run_in_thread(lambda: asyncio.run(build()))


def test_every_strategy_has_a_tab_next_to_those_of_its_group(page):
    tabs = [block.id for block in page.blocks.values() if isinstance(block, gr.Tab)]
    ours = [STRATEGIES[name] for name in tabs if name in STRATEGIES]
    assert {s.name for s in ours} == set(STRATEGIES)
    assert [s.group for s in ours] == sorted((s.group for s in ours), key=[*STRATEGY_GROUPS].index)


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_has_a_page_and_an_endpoint(page, name):
    assert f"page-{name}" in {block.elem_id for block in page.blocks.values()}
    assert name in {event.api_name for event in page.fns.values()}


def test_a_visit_is_cheap(page):
    # Gradio copies the state of every component for every visit and keeps it.
    assert len(page.blocks) < 10 * len(STRATEGIES)
