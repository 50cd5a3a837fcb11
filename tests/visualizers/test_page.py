"""A page of its own holds the whole run and nothing that is not needed."""

from __future__ import annotations

import dataclasses
import json
from html import unescape

import pytest

from engine.strategies import STRATEGIES
from engine.trace import json_io
from tests.helpers.strategies import recorded, trace_of
from visualizers import list_visuals, strategy_visuals, summarize_trace
from visualizers import page as pages
from visualizers.__main__ import main
from visualizers.page import page

PLOTLY_LEAST = 2_000_000


def given(html):
    """Return what the page hands to its scripts."""
    assert "<!--" not in html.split('id="run">')[1]
    text = html.rpartition('<script type="application/json" id="run">')[2]
    return json.loads(text.split("</script>")[0])


@pytest.mark.by_day("universal_assisted", "masked_diffusion", "custom")
@pytest.mark.parametrize("name", STRATEGIES)
def test_the_run_is_in_the_page_with_what_its_pictures_show(name):
    trace = recorded(name)
    made = page(trace)
    data = given(made.html)
    assert json_io.trace_from_dict(data["recorded"]["trace"]) == json_io.loads(json_io.dumps(trace))
    shown = json.loads(json.dumps(summarize_trace(trace, list_visuals(trace))))
    assert data["recorded"]["shown"] == shown
    assert data["visuals"] == pages.order_views(strategy_visuals(name, STRATEGIES[name].visuals))
    drawn = "layer_heatmap" in data["visuals"]
    assert (len(made.html) > PLOTLY_LEAST) == drawn
    assert drawn or len(made.html) < 1_000_000
    assert "http://" not in pages.page_skeleton([]).replace("http://www.w3.org", "")


def test_no_text_of_a_run_can_end_the_page():
    text = "</script><script>alert(1)</script><!--run--><!--"
    trace = dataclasses.replace(trace_of("greedy"), prompt=text, notes=(text, "\udc80"))
    html = page(trace, dark=True).html
    data = given(html)
    assert (data["recorded"]["trace"]["prompt"], data["dark"]) == (text, True)
    assert html.count("alert(1)") == 2
    assert "<script>alert(1)" not in html
    html.encode()


def test_nothing_in_a_script_looks_like_its_end():
    script = "const a = '</script>', b = '</SCRIPT>', c = '<!-- x';"
    assert (
        pages._escape_script(script)
        == "const a = '<\\/script>', b = '<\\/SCRIPT>', c = '<\\!-- x';"
    )


def test_a_notebook_shows_the_page_in_a_frame(tmp_path):
    made = page(trace_of("beam_search"))
    frame = made._repr_html_()
    assert frame.startswith('<iframe srcdoc="')
    assert frame.count("<") == frame.count(">") == 2
    assert unescape(frame.split('"')[1]) == made.html
    assert made.save(tmp_path / "run.html").read_text("utf-8") == made.html


def test_the_command_writes_a_page(tmp_path, capsys):
    trace = trace_of("beam_search")
    source = tmp_path / "run.json.gz"
    json_io.save(trace, source)
    assert main([str(source)]) == 0
    assert (tmp_path / "run.html").read_text("utf-8") == page(json_io.load(source)).html
    assert capsys.readouterr().out == f"{tmp_path / 'run.html'} written\n"
    assert main([str(source), "-o", str(tmp_path / "other.html"), "--dark"]) == 0
    assert given((tmp_path / "other.html").read_text("utf-8"))["dark"]
    (tmp_path / "bad.json").write_text("{}")
    assert main([str(tmp_path / "bad.json")]) == 2
    assert main([str(tmp_path / "none.json")]) == 2
    assert capsys.readouterr().err.count("\n") == 2
    assert not (tmp_path / "bad.html").exists()
