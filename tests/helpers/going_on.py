"""A page that asks for one run and stays with it, wherever the run goes on."""

from __future__ import annotations

import uuid

import httpx

from benchmarks.reliability.visitor import LOST, Heard, PageVisitor, wait_between
from engine import DecodeRequest
from engine.run.decoding import decode_to_trace
from tests.helpers.events import events_of
from tests.helpers.patience import PATIENCE_S

PROMPT = "Once upon a time, there was"
STEPS = 120


class Run:
    """A page that asks for one run and stays with it, wherever it goes on.

    Args:
        strategy: of the run.
        params: of it.
        seed: of it.
    """

    def __init__(self, strategy, seed=0, **params):
        params = {"max_new_tokens": STEPS, "min_new_tokens": STEPS, **params}
        self.element = strategy
        self.asked = {"strategy": strategy, "prompt": PROMPT, "params": params, "seed": seed}
        self.asked["press"] = uuid.uuid4().hex
        self.heard = Heard()
        self.states = 0

    def press(self, page):
        """Ask for it."""
        page.announce(self.asked["press"])
        page.ask(self.element, self.asked)

    def follow(self, page, until):
        """Listen until something is so, or the line is lost."""
        for message, last in page.messages(PATIENCE_S):
            self.states += message["kind"] == "state"
            if self.heard.take(message, last=last):
                page.ask("dp-bus", {"run": self.heard.run})
            if until(self.heard):
                return

    def stay(self, page):
        """Ask for it again until it has ended."""
        while not self.heard.status:
            resume = {"resume": bool(self.heard.run), "run": self.heard.run}
            try:
                page.announce(self.asked["press"])
                page.ask(self.element, {**self.asked, **resume, "next": self.heard.next})
                self.follow(page, lambda heard: heard.status)
            except LOST:
                wait_between()


def page_at(url):
    with httpx.Client(trust_env=False) as client:
        return PageVisitor(url, events_of(client.get(f"{url}/config").json()))


def begun(heard):
    return len(heard.indices) > 5


def check(run):
    assert run.heard.status == "finished", run.heard.status
    assert run.heard.indices == list(range(len(run.heard.indices)))
    asked = run.asked
    alone = decode_to_trace(
        DecodeRequest(asked["strategy"], prompt=PROMPT, params=asked["params"], seed=asked["seed"])
    )
    (output,) = run.heard.outputs
    assert output["token_ids"] == list(alone.outputs[0].token_ids)
    assert output["text"] == alone.outputs[0].text
    assert len(run.heard.indices) == len(alone.steps)
    assert run.heard.runs == {run.heard.run}
