"""The board shows every number that there is, and no other."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

from playground.server import metrics

BOARD = json.loads(
    (Path(__file__).parents[2] / "deploy/grafana/decoding-playground.json").read_text()
)
PANELS = BOARD["panels"]
EXPRESSIONS = [target["expr"] for panel in PANELS for target in panel["targets"]]
ENDS = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket",)}
OF_PROCESS = {"process_resident_memory_bytes"}
# Of every program that Prometheus asks; boards for those exist.
NOT_SHOWN = {
    "process_virtual_memory_bytes",
    "process_start_time_seconds",
    "process_cpu_seconds_total",
    "process_open_fds",
    "process_max_fds",
}


def exposed():
    own = [(metrics.PREFIX, m) for m in (*metrics.ENGINE_METRICS, *metrics.WEB_METRICS)]
    replicas = [(metrics.REPLICA_PREFIX, m) for m in metrics.REPLICA_METRICS]
    return {p + m.name + end for p, m in (*own, *replicas) for end in ENDS[m.kind]}


def shown():
    return {n for e in EXPRESSIONS for n in re.findall(r"\b(?:playground|process)_[a-z_]+", e)}


def test_every_number_is_on_the_board_and_no_other():
    assert shown() == exposed() | OF_PROCESS


def test_what_every_program_tells_is_shown_or_left_out_on_purpose():
    body, _ = metrics.render_metrics(_Nothing(), "")
    names = set(re.findall(rb"^(process_[a-z_]+)", body, re.MULTILINE))
    assert {name.decode() for name in names} <= OF_PROCESS | NOT_SHOWN


class _Nothing:
    def collect(self):
        return []


def test_panels_have_ids_of_their_own_and_do_not_overlap():
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    cells = [
        {(x, y) for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])}
        for g in (panel["gridPos"] for panel in PANELS)
    ]
    assert all(x < 24 for own in cells for x, _ in own)
    assert not any(one & other for one, other in itertools.combinations(cells, 2))


def test_every_panel_says_what_it_shows_and_in_what():
    units = {"reqps", "short", "s", "bytes"}
    for panel in PANELS:
        assert re.fullmatch(r"[A-Z].*\.", panel["description"]), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"] in units
        for target in panel["targets"]:
            assert target["datasource"] == panel["datasource"]
            assert target["expr"].count("(") == target["expr"].count(")")
        text = " ".join(target["expr"] for target in panel["targets"])
        if re.search(r"_bytes\b", text):
            assert panel["fieldConfig"]["defaults"]["unit"] == "bytes"


def test_whose_numbers_they_are_is_chosen_on_the_board():
    names = {one["name"]: one["type"] for one in BOARD["templating"]["list"]}
    assert names == {"datasource": "datasource", "instance": "query"}
    assert {panel["datasource"]["uid"] for panel in PANELS} == {"${datasource}"}
    assert BOARD["schemaVersion"] >= 41
