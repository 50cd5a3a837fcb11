"""What tabs open with: recorded runs and examples as the page fetches them, small and kept."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from engine.analysis import examples, gallery
from engine.errors import TraceError
from engine.sources.catalogue import CATALOGUE, CatalogueEntry
from engine.strategies import STRATEGIES
from engine.strategies.chat_presets import CHAT_MODEL, CHAT_PRESETS
from engine.trace import json_io
from playground.app import page_head, preload_head
from playground.forms.links import preset_form
from playground.forms.spec import page_spec
from playground.shell import scripts
from playground.tabs import recorded_runs

NAMES = [entry.name for entry in gallery.list_entries()]


def fetched(name):
    return json.loads(gzip.decompress(recorded_runs.gzipped_json(name)))


@pytest.mark.by_day("speculative", "mtp", "masked_diffusion")
@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_opens_with_its_first_preset_as_it_was_recorded(name):
    preset = STRATEGIES[name].presets[0]
    [declared] = [s for s in page_spec()["strategies"] if s["name"] == name]
    found = fetched(declared["presets"][0]["recorded"])
    trace = gallery.open_entry(f"{name}-1.json.gz")
    assert json_io.trace_from_dict(found["trace"]) == trace
    assert len(found["shown"]) == len(trace.steps)
    assert (found["shows"], found["look_at"]) == (preset.shows, preset.look_at)
    assert found["form"] == json.loads(json.dumps(preset_form(name, preset)))


@pytest.mark.by_day("sampling-1", "sampling-4")
@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_run_names_the_dials_whose_maps_can_be_fetched(name):
    dials = fetched(name)["dial_maps"]
    # Three texts have no map.
    expected = {"sampling-1": ["temperature", "top_p"], "sampling-4": []}
    assert dials == expected.get(name, dials)
    assert all(fetched(f"{name}.{dial}")["map"]["dial"] == dial for dial in dials)


@pytest.mark.parametrize("there", [True, False])
def test_presets_name_their_recorded_runs_and_no_other(there, monkeypatch):
    monkeypatch.setattr(
        CatalogueEntry, "available", property(lambda e: e.name != CHAT_MODEL or there)
    )
    named = [
        p["recorded"] for s in page_spec()["strategies"] for p in s["presets"] if p["recorded"]
    ]
    own = [entry.name for entry in gallery.list_entries() if there or entry.model is None]
    assert sorted(named) == sorted(own)


def test_a_recorded_conversation_opens_with_its_form_where_its_model_is_not(monkeypatch):
    monkeypatch.setattr(CatalogueEntry, "available", property(lambda e: e.name != CHAT_MODEL))
    for entry in gallery.list_entries():
        if entry.model is not None:
            found = recorded_runs.recorded_run(entry.name)
            [talk] = [t for t in CHAT_PRESETS[entry.strategy] if t.name == entry.preset]
            assert found["form"]["messages"] == talk.messages
            assert found["form"]["model"] == CHAT_MODEL
            assert CATALOGUE[CHAT_MODEL].title in found["title"]


def test_the_examples_hold_what_their_tabs_show():
    compared = fetched("compare-1")
    [figures] = compared["figures"]["seeds"]
    assert len(compared["columns"]) == len(figures["rows"]) == 4
    assert compared["parting"]["common"] < 10
    texts = [column["trace"]["outputs"][0]["text"] for column in compared["columns"]]
    assert len(set(texts)) == 4
    drawn = fetched("draws")
    assert (drawn["kind"], drawn["draws"], drawn["wanted"]) == (
        "recorded",
        examples.DRAWS_COUNT,
        examples.DRAWS_COUNT,
    )
    assert drawn["rows"]
    bench = fetched("watermark_bench")
    assert "Marked: z =" in bench["pair"]
    assert "Not shown to be marked" in bench["pair"]
    assert bench["text"] == gallery.open_entry("watermark-1.json.gz").outputs[0].text


def test_every_comparison_of_the_menu_has_its_recording():
    presets = page_spec()["compare"]["presets"]
    assert [p["recorded"] for p in presets] == [f"compare-{n}" for n in range(1, len(presets) + 1)]
    for preset in presets:
        columns = fetched(preset["recorded"])["columns"]
        assert [c["trace"]["strategy"] for c in columns] == [
            c["strategy"] for c in preset["columns"]
        ]


def test_a_comparison_without_its_file_names_no_recording(tmp_path):
    assert examples.recorded_comparisons(tmp_path) == {}


@pytest.mark.nightly
def test_what_is_fetched_is_small_and_the_page_itself_holds_no_run():
    sizes = {name: len(recorded_runs.gzipped_json(name)) for name in NAMES}
    assert max(sizes.values()) < 130_000
    assert sizes["greedy-1"] < 25_000
    assert (
        sum(len(recorded_runs.gzipped_json(n)) for n in ("compare-1", "draws", "watermark_bench"))
        < 90_000
    )
    head = page_head()
    assert len(head) < 215_000


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("", "sampling-1"),
        ("lang=de", "sampling-1"),
        ("tab=sampling", "sampling-1"),
        ("tab=dola&step=3", "dola-1"),
        ("trace=greedy-2&step=4", "greedy-2"),
        ("trace=nothing-1", None),
        ("tab=compare", None),
        ("strategy=sampling&prompt=A", None),
    ],
)
def test_an_address_preloads_what_it_shows_and_nothing_else(query, name):
    head = preload_head(query)
    assert head == (
        scripts.preload_html(f"./{recorded_runs.recorded_path()}/{name}.json") if name else ""
    )


def test_an_answer_is_kept_and_another_version_is_not_there():
    client = TestClient(Starlette(routes=recorded_runs.routes()))
    answer = client.get(f"/{recorded_runs.recorded_path()}/draws.json")
    assert answer.headers["content-encoding"] == "gzip"
    assert "immutable" in answer.headers["cache-control"]
    assert answer.json() == fetched("draws")
    plain = client.get(
        f"/{recorded_runs.recorded_path()}/draws.json", headers={"accept-encoding": "identity"}
    )
    assert "content-encoding" not in plain.headers
    assert plain.json() == answer.json()
    for path in (
        "/recorded/0/draws.json",
        f"/recorded/{recorded_runs.recorded_path()[-1]}/draws.json",
        f"/{recorded_runs.recorded_path()}/nope.json",
        f"/{recorded_runs.recorded_path()}/..%2Findex.json",
    ):
        assert client.get(path).status_code == 404
    with pytest.raises(TraceError, match="named"):
        recorded_runs.gzipped_json("../index")


@pytest.mark.nightly
def test_without_a_gallery_the_page_is_made_and_names_no_run(tmp_path):
    """In a process of its own: what the page is made of is worked out once."""
    code = (
        "import pathlib, sys; from engine.analysis import gallery\n"
        "gallery.list_entries.__defaults__ = (pathlib.Path(sys.argv[1]),)\n"
        "from playground.app import build_app, page_head\n"
        "build_app(); print(page_head())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert '"recorded"' in done.stdout
    assert "greedy-1" not in done.stdout
