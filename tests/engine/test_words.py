"""What the declarations tell a reader: plain sentences, without numbers of papers or of other runs."""

from __future__ import annotations

import re

import pytest

from engine.analysis.comparisons import available_presets
from engine.cli.paper_page import ARXIV_ID
from engine.declare.params import params_of
from engine.strategies import STRATEGIES

MEASURED = re.compile(r"\d\s*%|\d×|× ?\d|\d ?(?:s|ms)\b")


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=lambda strategy: strategy.name)
def test_no_help_text_names_a_paper_by_its_number(strategy):
    assert not ARXIV_ID.search(strategy.summary)
    for name, kind in params_of(strategy.config).items():
        assert not ARXIV_ID.search(kind.help), name
        assert not ARXIV_ID.search(kind.label), name


def test_the_papers_of_parameters_have_arxiv_numbers():
    kinds = [kind for s in STRATEGIES.values() for kind in params_of(s.config).values()]
    papers = {paper for kind in kinds for paper in kind.papers}
    assert len(papers) > 5
    assert all(ARXIV_ID.fullmatch(paper) for paper in papers)


def test_what_to_look_at_holds_no_figure_that_was_measured_once():
    for strategy in STRATEGIES.values():
        for preset in strategy.presets:
            assert not MEASURED.search(preset.shows), preset.name
    for comparison in available_presets():
        assert not MEASURED.search(comparison.shows), comparison.name
