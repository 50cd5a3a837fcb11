"""The forward timeline in a page of its own: rows, scrubbing, keyboard, a long run, a telephone, light and dark."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.helpers.forwards import beside, elsewhere, plain, rolled_back
from tests.helpers.pages import fits, shot, until, view
from tests.helpers.patience import PATIENCE_MS
from visualizers.page import page

# Whether a row is in sight in its box, whose lengths are rounded to pixels.
SEEN = """(row) => {
  const box = row.closest('.ft-box'), top = row.offsetTop - box.scrollTop;
  return top >= -1 && top + row.offsetHeight <= box.clientHeight + 2;
}"""


@pytest.fixture
def timeline(browser, tmp_path):
    """Return what opens the page of a run and returns its timeline; what it complains of fails the test."""
    problems, opened = [], []

    def open_(trace, *, width=1200, dark=False):
        alone = browser.new_page(viewport={"width": width, "height": 900})
        alone.set_default_timeout(PATIENCE_MS)
        opened.append(alone)
        alone.on("pageerror", lambda error: problems.append(str(error)))
        alone.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
        alone.goto(page(trace, dark=dark).save(tmp_path / f"{len(opened)}.html").as_uri())
        return view(alone.locator(".dp-stage"), "forward_timeline")

    yield open_
    for alone in opened:
        alone.title()  # whatever it has reported until now is here before the answer
        alone.close()
    assert not problems


def rows(drawn, more=""):
    return drawn.locator(f"[role=listitem]{more}")


@pytest.mark.nightly
@pytest.mark.parametrize("dark", [False, True])
def test_every_pass_is_a_row_and_what_was_taken_back_is_struck_out(timeline, dark):
    drawn = timeline(rolled_back(), dark=dark)
    expect(rows(drawn)).to_have_count(8)
    expect(drawn.locator(".ft-summary")).to_have_text(
        "5 tokens in 8 forward passes; 3 tokens were taken back in 2 rollbacks."
    )
    expect(drawn).to_contain_text("We only see what the method sends")
    expect(drawn.locator(".ft-tile.gone")).to_have_text(["·e", "·f", "·i"])
    expect(rows(drawn, ":has(.ft-lane .gone)").locator(".ft-number")).to_have_text(["4", "7"])
    expect(drawn.locator(".ft-tile.new")).to_have_text([f"·{letter}" for letter in "defghijk"])
    expect(rows(drawn).nth(3)).to_contain_text("read 1 token, 5 stored in the cache")
    expect(drawn.locator(".ft-gaps")).to_contain_text("candidates at 1 of 7 steps")
    shot(drawn, f"forward_timeline{'_dark' if dark else ''}")


def test_a_step_is_chosen_by_its_row_and_by_keys(timeline):
    drawn = timeline(rolled_back())
    rows(drawn).nth(3).click()
    # The two passes of the fourth step.
    expect(drawn.locator(".ft-row.sel .ft-number")).to_have_text(["4", "5"])
    expect(rows(drawn, ".later")).to_have_count(3)
    expect(drawn.locator(".ft-step")).to_contain_text(
        "Forward passes 4 and 5 read 1 + 1 tokens of its text. 2 tokens were taken back after pass 4"
    )
    drawn.locator(".ft-row.sel .ft-number").last.focus()
    drawn.page.keyboard.press("ArrowDown")
    expect(drawn.locator(".ft-row.sel .ft-number")).to_have_text(["6"])
    expect(drawn.locator(".ft-row.sel .ft-number")).to_be_focused()
    drawn.page.keyboard.press("End")
    expect(drawn.locator(".ft-row.sel .ft-number")).to_have_text(["8"])
    expect(drawn.locator(".ft-number[tabindex='0']")).to_have_count(1)
    drawn.page.get_by_role("button", name="Previous word").click()
    expect(drawn.locator(".ft-row.sel .ft-number")).to_have_text(["7"])


@pytest.mark.nightly
def test_passes_next_to_the_text_are_distinguished_from_its_own(timeline):
    drawn = timeline(beside())
    expect(drawn.locator(".ft-summary")).to_have_text(
        "3 tokens in 5 forward passes; none was taken back. 2 tokens that had been written are not in"
        " the text that was returned. 1 of the passes read another text than the run's own."
        " Up to 2 rows were read at once; what is followed here is the first."
    )
    expect(rows(drawn, ".aside").locator(".ft-number")).to_have_text(["2", "4"])
    expect(rows(drawn, ".aside").locator(".ft-lane .other")).to_have_count(1)
    expect(rows(drawn).first).to_contain_text("no pass")
    unseen = drawn.locator(".ft-gaps")
    expect(unseen).to_contain_text("what 1 pass read, as it was given no token ids")
    expect(unseen).to_contain_text("when a token was final, as none was handed to a streamer")


@pytest.mark.nightly
def test_a_run_without_a_pass_says_so(timeline):
    drawn = timeline(elsewhere())
    expect(drawn.locator(".ft-summary")).to_have_text(
        "2 tokens in 0 forward passes; none was taken back."
    )
    expect(drawn.locator(".ft-gaps")).to_contain_text("any forward pass")
    expect(rows(drawn)).to_have_count(1)


@pytest.mark.nightly
def test_of_a_long_run_what_is_near_is_drawn_and_the_chosen_step_is_in_sight(timeline):
    drawn = timeline(plain(1000))
    chosen = drawn.locator(".ft-row.sel")
    expect(chosen.locator(".ft-number")).to_have_text(["1000"])
    until(chosen, SEEN)
    assert rows(drawn).count() == 160
    drawn.get_by_role("button", name="840 ↑ earlier passes").click()
    expect(chosen.locator(".ft-number")).to_have_text(["840"])
    until(chosen, SEEN)
    assert rows(drawn).count() == 160
    expect(drawn.get_by_role("button", name="↓ later")).to_be_visible()
    drawn.page.get_by_role("button", name="To the start").click()
    drawn.page.get_by_role("button", name="One step on").click()
    expect(rows(drawn)).to_have_count(1)


@pytest.mark.nightly
def test_rows_come_with_their_steps_and_the_newest_is_followed(timeline):
    drawn = timeline(plain(24))
    drawn.page.get_by_role("button", name="To the start").click()
    for step in range(1, 25):
        drawn.page.get_by_role("button", name="One step on").click()
        expect(rows(drawn)).to_have_count(step)
    until(drawn.locator(".ft-row.sel"), SEEN)
    expect(drawn.locator(".ft-summary")).to_contain_text("24 tokens in 24 forward passes")


@pytest.mark.nightly
def test_on_a_telephone_nothing_scrolls_sideways(timeline):
    drawn = timeline(rolled_back(), width=390)
    expect(rows(drawn)).to_have_count(8)
    assert fits(drawn.page)
    lane = rows(drawn).first.locator(".ft-lane").bounding_box()
    assert lane["width"] > 200
    shot(drawn, "forward_timeline_telephone")


@pytest.mark.nightly
def test_the_table_has_every_pass(timeline):
    drawn = timeline(rolled_back())
    drawn.get_by_text("Table of every forward pass").click()
    cells = drawn.locator(".dp-table tbody tr").nth(3).locator("td")
    # The rows are drawn once the table has opened.
    expect(cells).to_have_text(["4", "4", "its own", "1", "1", "5", "6", "e f", "", "", "1.00"])
