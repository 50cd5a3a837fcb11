"""A start: what is imported before there is a page, how much the page declares, and what stands in it."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import gradio as gr
import pytest

from engine import STRATEGIES
from engine.run.weights import list_weight_params
from playground.forms.spec import page_spec
from playground.inspect import questions
from playground.jobs.registry import JOBS, JobKind
from playground.shell import lazy_imports
from playground.shell.gradio_patches import skip_stub_generation
from playground.shell.guard import guard_handler
from playground.shell.page_head import insert_head
from tests.helpers.patience import PATIENCE_S
from tests.helpers.server import ROOT

DECLARED = """
import gzip, json, runpy, sys
runpy.run_path("app.py")
from playground import app
demo = app.build_app()
head = app.page_head()
config = json.dumps(demo.get_config_file())
sizes = [len(demo.blocks), len(demo.fns), len(config), len(gzip.compress(head.encode()))]
before = [*sys.modules]
late = ["./refusals" in head, app.lazy_imports.is_finished()]
app.lazy_imports.uninstall()
app.lazy_imports.load_all()
app.find_refused_models()
app.lazy_imports.finish()
import torch
from engine.loops import recorder
from engine.strategies import watermark
late += ["./refusals" in app.page_head(), app.lazy_imports.is_finished()]
real = [recorder.torch is torch, watermark.processors is sys.modules["engine.watermark.processors"]]
print(json.dumps({"before": before, "late": late, "real": real, "after": [*sys.modules], "sizes": sizes}))
"""
HEAVY = {
    "accelerate.utils",
    "bitsandbytes",
    "plotly",
    "safetensors.torch",
    "sympy",
    "tokenizers",
    "torch._C",
    "torch._dynamo",
    "transformers.utils",
}
"""What only a run needs."""


def python(code, **more):
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | more,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def declared():
    return json.loads(python(DECLARED))


def test_a_page_is_declared_without_what_only_a_run_needs(declared):
    assert not HEAVY & set(declared["before"])
    assert HEAVY & set(declared["after"]) >= {"torch._C", "transformers.utils", "tokenizers"}
    shared = {"transformers.generation.utils", "transformers.models.auto.modeling_auto"}
    assert shared <= set(declared["after"]), "two threads would import these at the same time"
    assert declared["late"] == [True, False, False, True]
    assert declared["real"] == [True, True], "a stand-in was left where the package is"


def test_what_a_page_declares_is_bounded(declared):
    """Every component is configured by Gradio and every event listened to, in every browser."""
    components, events, config, head = declared["sizes"]
    strategies = len(STRATEGIES)
    # One of the three describes the parameters of an endpoint. The endpoints of no strategy have nineteen.
    assert components <= 3 * strategies + 57
    assert events <= 3 * strategies + 18
    assert config < 100_000
    assert head < 50_000


@pytest.mark.nightly
def test_on_a_zerogpu_nothing_is_put_off():
    """A run has a fork of the process there, which cannot wait for what another thread imports."""
    code = "import runpy, sys; runpy.run_path('app.py'); print('torch._C' in sys.modules)"
    assert python(code, SPACES_ZERO_GPU="1") == "True"


@pytest.mark.nightly
@pytest.mark.parametrize(
    "use",
    [
        "torch.zeros(1)",
        "from transformers.cache_utils import Cache; assert Cache is sys.modules['transformers'].Cache",
        "transformers.GenerationMixin",
        "devices.default_device()",
        "processors.GreenListProcessor",
        "import torch.nn.functional",
    ],
)
def test_whatever_is_used_first_brings_all_of_it(use):
    code = f"""
import sys
from playground.shell import lazy_imports
lazy_imports.install()
import torch, transformers
from engine.models import devices
from engine.watermark import processors
assert "torch._C" not in sys.modules and not lazy_imports.is_finished()
{use}
assert not hasattr(torch, "__wrapped__") and torch.__version__ == sys.modules["torch"].__version__
print(all(hasattr(sys.modules[name], "__file__") for name in lazy_imports.LAZY_MODULES))
"""
    assert python(code) == "True"


def test_nothing_is_put_off_where_it_is_there():
    import torch

    lazy_imports.install()
    assert lazy_imports.is_finished()
    lazy_imports.load()
    lazy_imports.finish()
    assert sys.modules["torch"] is torch


def test_gradio_makes_no_stub_of_a_class_that_is_made_meanwhile():
    with skip_stub_generation():

        class Own(gr.HTML):
            pass

        assert inspect.getfile(Path) == inspect.getfile(Path("a").__class__.__mro__[1])
    assert issubclass(Own, gr.HTML)
    assert not Path(__file__).with_suffix(".pyi").exists()
    assert inspect.getfile(Own) == __file__


def test_the_head_follows_the_address_that_its_own_addresses_are_relative_to():
    page = b"<html><head><meta><base href='./' /><style></style></head><body></body></html>"
    assert insert_head(page, "<HERE>") == page.replace(b"<style>", b"<HERE><style>")
    bare = b"<html><head></head></html>"
    assert insert_head(bare, "<HERE>") == b"<html><head><HERE></head></html>"


def test_which_models_cannot_serve_is_said_when_it_is_known(monkeypatch):
    known = {one["name"]: one["refused"] for one in page_spec()["strategies"]}
    assert any(known.values())
    monkeypatch.setattr(lazy_imports, "is_finished", lambda: False)
    assert not any(one["refused"] for one in page_spec()["strategies"])


def test_work_that_holds_nothing_back_is_not_asked_for_the_device(monkeypatch):
    def looked():
        raise AssertionError("nobody has to know which device there is")

    monkeypatch.setattr("engine.run.weights.default_device", looked)
    assert "dtype" in list_weight_params(assistant=False)


@pytest.mark.parametrize(
    "work",
    [
        pytest.param(lambda done: guard_handler(done)(), id="handler"),
        pytest.param(
            lambda done: JOBS.start(
                JobKind("test", lambda job, asked: (done() for _ in "1")), "", {}
            ).wait_for_messages(0, PATIENCE_S),
            id="job",
        ),
        pytest.param(
            lambda done: done(questions._handle_event(gr.EventData(None, {"action": "methods"}))),
            id="question",
        ),
    ],
)
def test_nothing_begins_before_the_imports_that_all_share(work, monkeypatch):
    loaded, done = threading.Event(), threading.Event()
    monkeypatch.setattr(lazy_imports, "_LOADED", loaded)
    working = threading.Thread(target=work, args=[lambda *_: done.set()], daemon=True)
    working.start()
    assert not done.wait(0.3)
    loaded.set()
    assert done.wait(PATIENCE_S)
    working.join(PATIENCE_S)
