"""A run in a real JupyterLab and a real marimo: drawn while it decodes, stopped, saved and opened again."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
from contextlib import contextmanager

import pytest
from playwright.sync_api import expect

from tests.helpers.pages import shot
from tests.helpers.patience import PATIENCE_S, comes_true
from tests.helpers.server import ROOT, await_answer, free_port

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(3600)]
OWN = ".own"
DARK_JUPYTER = (
    "JUPYTER_CONFIG_DIR/lab/user-settings/@jupyterlab/apputils-extension/themes.jupyterlab-settings",
    '{"theme": "JupyterLab Dark"}',
)
DARK_MARIMO = ("XDG_CONFIG_HOME/marimo/marimo.toml", '[display]\ntheme = "dark"\n')
DARK = re.compile(r"\bdark\b")
TOOLS = ("jupyterlab", "marimo", "anywidget")
IMPORT = "from decoding_playground import DecodeRequest, watch"
LONG = (
    'watch(DecodeRequest("sampling", prompt="Once upon a time",'
    ' params={"max_new_tokens": 500, "min_new_tokens": 500, "top_k": 0}, seed=3))'
)
SHORT = 'watch(DecodeRequest("greedy", prompt="The dog", params={"max_new_tokens": 5}))'
BAD = 'watch(DecodeRequest("sampling", prompt="The dog", params={"temperature": -8}))'
REFUSED = "temperature = -8 is not allowed: it must be a number at least 0.001 and at most 100."
MARIMO = """import marimo

app = marimo.App()


@app.cell
def _():
    {imports}
    return DecodeRequest, watch
{cells}

if __name__ == "__main__":
    app.run()
"""
MARIMO_CELL = """

@app.cell
def _(DecodeRequest, watch):
    {call}
    return
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """Return the Python of an environment with notebooks, which finds the packages of this one too."""
    folder = tmp_path_factory.mktemp("notebooks")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    found = folder / "bin" / "python"
    # pip would compile thousands of modules that nothing here imports.
    command = [found, "-m", "pip", "install", "-q", "--no-compile", *TOOLS]
    installed = subprocess.run(command, capture_output=True, text=True, check=False)
    if installed.returncode:
        pytest.skip(f"JupyterLab and marimo cannot be installed: {installed.stderr[-500:]}")
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = subprocess.run([found, "-c", asked], capture_output=True, text=True, check=True)
    # Behind the environment's own packages.
    lines = f"{ROOT}\n{sysconfig.get_path('purelib')}\n"
    with open(f"{packages.stdout.strip()}/playground.pth", "w") as more:
        more.write(lines)
    return found


@contextmanager
def program(python, folder, *words):
    """Serve a notebook program from a folder, which holds all that it writes; yields its address."""
    port = free_port()
    own = {
        name: str(folder / OWN / name)
        for name in (
            *("HOME", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"),
            *("IPYTHONDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"),
        )
    }
    with (folder / "log.txt").open("w") as log:
        served = subprocess.Popen(
            [python, "-m", *words, f"--port={port}"],
            cwd=folder,
            env={**os.environ, **own, "OMP_NUM_THREADS": "1"},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        await_answer(url, served, folder / "log.txt")
        yield url
    finally:
        served.terminate()
        try:
            served.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            # How a notebook program ends is not ours to test.
            served.kill()
            served.wait()


def set_up(folder, setting):
    """Write a settings file of a notebook program."""
    name, text = setting
    path = folder / OWN / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def write_jupyter(path, *sources):
    cells = [
        {
            "cell_type": "code",
            "id": f"cell-{number}",
            "metadata": {},
            "execution_count": None,
            "outputs": [],
            "source": source,
        }
        for number, source in enumerate(sources)
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    book = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(book))


@pytest.fixture
def jupyter(python, tmp_path):
    """Return an address of JupyterLab, and the notebook that it opens."""
    path = tmp_path / "watch.ipynb"
    write_jupyter(path, f"{IMPORT}\nrun = {LONG}\nrun", SHORT, BAD, "len(run.result().steps)")
    words = ("jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1")
    with program(python, tmp_path, *words, "--IdentityProvider.token=") as url:
        yield f"{url}/lab/tree/watch.ipynb", path


def saved_outputs(path):
    """Return the outputs of each cell of a notebook, nothing while it is being written."""
    try:
        book = json.loads(path.read_text())
    except json.JSONDecodeError:
        return []
    # JupyterLab adds an empty cell below the last one when that is run.
    return [cell["outputs"] for cell in book["cells"] if cell["source"]]


def save_jupyter(page, path):
    """Save a notebook whose cells all have an output."""
    page.keyboard.press("Control+s")
    comes_true(lambda: saved_outputs(path) and all(saved_outputs(path)))
    return [outputs[0]["data"] for outputs in saved_outputs(path)]


def open_jupyter(browser, address):
    page = browser.new_page(viewport={"width": 1440, "height": 1000})
    page.goto(address)
    # A cell that is run before its kernel is there is not run.
    expect(page.get_by_text("Python 3 (ipykernel) | Idle")).to_be_visible()
    return page


def run_cell(page, number):
    page.locator(".jp-CodeCell .cm-content").nth(number).click()
    page.keyboard.press("Shift+Enter")


def look_at_live_run(page, frame, label):
    """Look at a run that decodes, choose a step of it, and stop it."""
    status = frame.locator(".dp-status").first
    expect(frame.locator(".dp-tok[data-step]").nth(3)).to_be_visible()
    expect(status).to_have_text("Decoding…")
    frame.locator(".dp-tok[data-step]").nth(2).click()
    place = frame.locator(".dp-v-scrub output")
    expect(place).to_contain_text("Word 3 of")
    before = place.inner_text()
    expect(place).not_to_have_text(before)  # it decodes on, and the chosen step stays
    expect(place).to_contain_text("Word 3 of")
    shot(page, f"notebook_{label}_live")
    frame.get_by_role("button", name="Stop").click()


def test_jupyterlab_draws_a_run_and_saves_its_recorded_page(browser, jupyter):
    address, path = jupyter
    page = open_jupyter(browser, address)
    run_cell(page, 0)
    first = page.locator(".jp-CodeCell").nth(0)
    look_at_live_run(page, first.frame_locator("iframe"), "jupyterlab")
    saved = first.frame_locator("iframe[title='A recorded run']")
    expect(saved.get_by_role("button", name="▶ Play")).to_be_visible()
    expect(saved.locator(".dp-v-scrub output")).to_contain_text("Word 3 of")
    shot(page, "notebook_jupyterlab_saved")
    for number in (1, 2, 3):
        run_cell(page, number)
    second = page.locator(".jp-CodeCell").nth(1).frame_locator("iframe[title='A recorded run']")
    expect(second.locator(".dp-tok[data-step]")).to_have_count(5)
    third, last = (
        page.locator(".jp-CodeCell").nth(n).locator(".jp-OutputArea-output") for n in (2, 3)
    )
    expect(saved.locator("html")).not_to_have_class(DARK)
    expect(third).to_have_text(REFUSED)
    expect(last).to_have_text(saved.locator(".pl-bar output").inner_text().split(" ")[0])
    outputs = save_jupyter(page, path)
    assert [sorted(one) for one in outputs[:3]] == [["text/html", "text/plain"]] * 3
    page.close()


def test_jupyterlab_opens_a_saved_run_without_a_kernel(browser, python, tmp_path):
    path = tmp_path / "watch.ipynb"
    write_jupyter(path, f"{IMPORT}\nrun = {SHORT}\nrun", "len(run.result().steps)")
    words = ("jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1")
    with program(python, tmp_path, *words, "--IdentityProvider.token=") as url:
        page = open_jupyter(browser, f"{url}/lab/tree/watch.ipynb")
        run_cell(page, 0)
        recorded = page.frame_locator("iframe[title='A recorded run']")
        expect(recorded.locator(".dp-tok[data-step]")).to_have_count(5)
        run_cell(page, 1)
        expect(page.locator(".jp-CodeCell").nth(1).locator(".jp-OutputArea-output")).to_have_text(
            "5"
        )
        save_jupyter(page, path)
        page.close()
    set_up(tmp_path, DARK_JUPYTER)
    with program(python, tmp_path, *words, "--IdentityProvider.token=") as url:
        page = browser.new_page(viewport={"width": 1440, "height": 1000})
        page.goto(f"{url}/lab/tree/watch.ipynb?reset")
        recorded = page.frame_locator("iframe[title='A recorded run']")
        expect(recorded.locator(".dp-tok[data-step]")).to_have_count(5)
        recorded.locator(".dp-tok[data-step]").nth(1).click()
        expect(recorded.locator(".dp-v-scrub output")).to_have_text("Word 2 of 5")
        expect(recorded.locator("html")).to_have_class(DARK)
        shot(page, "notebook_jupyterlab_opened_dark")
        page.close()


def test_marimo_draws_a_run_and_plays_it(browser, python, tmp_path):
    cells = "".join(MARIMO_CELL.format(call=call) for call in (LONG, SHORT, BAD))
    (tmp_path / "watch.py").write_text(MARIMO.format(imports=IMPORT, cells=cells))
    set_up(tmp_path, DARK_MARIMO)
    words = ("marimo", "--yes", "edit", "watch.py", "--headless", "--no-token", "--host=127.0.0.1")
    with program(python, tmp_path, *words, "--skip-update-check") as url:
        page = browser.new_page(viewport={"width": 1440, "height": 1000})
        page.goto(url)
        page.locator(".cm-content").first.click()
        page.keyboard.press("Control+Shift+R")
        first, second = (page.frame_locator("marimo-anywidget iframe").nth(n) for n in (0, 1))
        look_at_live_run(page, first, "marimo")
        expect(first.locator("html")).to_have_class(DARK)
        expect(first.get_by_role("button", name="▶ Play")).to_be_visible()
        expect(first.locator(".dp-status").first).to_contain_text("Stopped")
        expect(first.locator(".dp-v-scrub output")).to_contain_text("Word 3 of")
        expect(second.locator(".dp-tok[data-step]")).to_have_count(5)
        expect(page.get_by_role("alert").filter(has_text=REFUSED)).to_be_visible()
        shot(page, "notebook_marimo_ended")
        page.close()
