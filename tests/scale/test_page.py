"""docs/scale.md tells what docs/scale.json holds, and what the plan makes of it."""

import pytest

from benchmarks.about import ROOT
from benchmarks.scale import page, plan

KIND = {"name": "greedy", "shares": True, "seconds": [0.4, 0.6], "cpu_s": [0.4, 0.6]}
KIND |= {"first_s": [0.1, 0.1], "steps": 10, "bytes_sent": 50_000, "web_s": 0.02}
COST = {"kinds": [KIND], "open_cpu_s": 0.01, "idle_web_s": 0.0001, "waiting_web_s": 0.001}
COST |= {"open_bytes": 100_000, "visitor_bytes": 100_000, "journal_bytes": 20_000}


def test_the_page_is_that_of_the_figures_kept():
    written = (ROOT / page.FILES[1]).read_text("utf-8")
    assert written == page.page_of(page.read())


def test_what_is_not_measured_is_said():
    assert page.page_of({}).count("Not measured yet.") == 4


def test_the_scarcest_comes_first():
    rows = plan.limits(COST)
    assert rows[0] == {"what": "one replica's time", "visitors_per_hour": 1680}
    assert [r["visitors_per_hour"] for r in rows] == sorted(r["visitors_per_hour"] for r in rows)
    heavy = plan.limits({**COST, "journal_bytes": 1_000_000})
    assert heavy[0]["what"].startswith("200 MB of journal")


def test_money_follows_from_price_and_pace():
    one = plan.Machine("x", per_hour=0.5, replicas=2, speed=1.0, basis="")
    (row,) = plan.money(COST, [one])
    assert row["runs_per_hour"] == 10080
    assert row["per_thousand"] == pytest.approx(0.0496)
