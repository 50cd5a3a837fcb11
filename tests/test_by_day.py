"""The mark ``by_day`` leaves a test's other cases to the night."""

from __future__ import annotations

import pytest

from tests.helpers.nightly import cases_by_day

pytest_plugins = ["pytester"]
CASES = """
import pytest

@pytest.mark.by_day({chosen})
@pytest.mark.parametrize("n", [0, 1, 2, pytest.param(3, marks=pytest.mark.nightly)])
def test_it(n): ...
"""


def test_a_number_of_cases_is_spread_over_all():
    cases = [*"abcdefg"]
    assert cases_by_day(cases, (1,)) == {"a"}
    assert cases_by_day(cases, (3,)) == {"a", "d", "g"}
    assert cases_by_day(cases, (9,)) == {*cases}


def test_named_cases_have_to_be_there():
    assert cases_by_day(["a", "b"], ("b",)) == {"b"}
    with pytest.raises(ValueError, match=r"there are no cases \['c'\]"):
        cases_by_day(["a", "b"], ("b", "c"))


@pytest.mark.parametrize(("chosen", "by_day"), [("2", 2), ('"1"', 1)])
def test_every_case_runs_by_day_or_by_night(pytester, chosen, by_day):
    write(pytester, chosen)
    pytester.runpytest("-m", "not nightly").assert_outcomes(passed=by_day, deselected=4 - by_day)
    pytester.runpytest("-m", "nightly").assert_outcomes(passed=4 - by_day, deselected=by_day)


def test_a_case_that_is_not_there_ends_the_run(pytester):
    write(pytester, '"7"')
    result = pytester.runpytest("-m", "not nightly")
    result.stderr.fnmatch_lines(["*by_day of *test_it: there are no cases ?'7'?"])


def write(pytester, chosen):
    """Write a project with our configuration of pytest and one test."""
    pytester.makeconftest("from tests.conftest import pytest_collection_modifyitems")
    pytester.makeini("[pytest]\nmarkers =\n    nightly\n    by_day")
    pytester.makepyfile(CASES.format(chosen=chosen))
