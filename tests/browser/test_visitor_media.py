"""A model is given a picture or a sound on the page: every way in, what is shown of it, and what a link holds."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from engine.media import list_examples
from tests.helpers.axe import grave
from tests.helpers.pages import (
    address,
    finish,
    fits,
    give,
    name_model,
    run,
    run_id,
    settled,
    shot,
    start,
    status,
    trace_of,
    with_model,
)
from tests.helpers.pictures import picture_file, sound_file
from tests.helpers.seers import listener, seer

BAD = ("status of 400", "400 http")
"""What a refused file is to the browser."""
PICTURES = [one for one in list_examples() if one.kind == "image"]
# Every stream that the page is given is kept, so that a test can see whether its light has gone out.
WATCHED = """() => {
window.given = [];
const ask = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
navigator.mediaDevices.getUserMedia = async (what) => {
  const stream = await ask(what);
  window.given.push(stream);
  return stream;
};
}"""
LIVE = "given.flatMap((s) => s.getTracks()).filter((t) => t.readyState === 'live').length"
PASTE = """([bytes, type]) => {
  const data = new DataTransfer();
  data.items.add(new File([new Uint8Array(bytes)], "pasted.png", { type }));
  document.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
}"""


@pytest.fixture(scope="module")
def eyes(tmp_path_factory):
    """Return the folder of a tiny model that reads a picture."""
    return seer(tmp_path_factory.mktemp("seer"))


@pytest.fixture(scope="module")
def ears(tmp_path_factory):
    """Return the folder of a tiny model that listens."""
    return listener(tmp_path_factory.mktemp("listener"))


@pytest.fixture
def with_devices(open_page):
    """Open a page that may use the browser's camera and microphone."""

    def opener(*args, **kwargs):
        page = open_page(*args, **kwargs)
        page.context.grant_permissions(["camera", "microphone"])
        page.evaluate(WATCHED)
        return page

    return opener


def picture(page, tab="greedy"):
    return page.locator(f"#{tab}-image")


def sound(page):
    return page.locator("#greedy-audio")


@pytest.mark.nightly
def test_a_model_that_reads_text_has_no_field_and_one_that_sees_has_one(open_page, eyes):
    page = open_page("/")
    expect(page.get_by_role("group", name="Picture")).to_have_count(0)
    expect(page.locator("#greedy-prompt label")).to_have_text("Prompt")
    name_model(page, eyes)
    expect(picture(page)).to_be_visible()
    expect(picture(page)).to_contain_text("needed")
    expect(page.locator("#greedy-prompt label")).to_have_text("Prompt (optional)")
    # What the preset says to a model that reads text is nothing to say of a picture.
    expect(page.locator("#greedy-prompt textarea").first).to_have_value("")
    # Back to one that reads text alone.
    page.locator("#greedy-model select").select_option("storyteller")
    expect(page.locator("#greedy-image")).to_be_hidden()
    expect(page.locator("#greedy-prompt label")).to_have_text("Prompt")
    expect(page.locator("#greedy-prompt textarea").first).to_have_value(re.compile("^Once upon"))


@pytest.mark.nightly
def test_run_says_at_once_that_a_picture_is_missing(open_page, eyes):
    page = with_model(open_page, eyes)
    expect(picture(page)).to_be_visible()
    before = start(page, "greedy")
    said = "This model needs a picture: choose one, or take an example."
    expect(picture(page).get_by_role("alert")).to_have_text(said)
    assert run_id(page, "greedy") == before
    assert not page.evaluate("playground.page.activity('greedy')")


@pytest.mark.nightly
def test_run_that_is_pressed_while_a_picture_is_on_its_way_waits_for_it(open_page, eyes):
    page = with_model(open_page, eyes)
    expect(picture(page)).to_be_visible()
    held = []

    def hold(route):
        held.append(route)

    page.route("**/media/image", hold)
    give(page, picture_file(64, 48))
    expect(picture(page).get_by_role("status")).to_have_text("Sending…")
    before = start(page, "greedy")
    start(page, "greedy")
    said = "Sending… The run begins as soon as it is there."
    expect(picture(page).get_by_role("status")).to_have_text(said)
    assert run_id(page, "greedy") == before
    [route] = held
    route.continue_()
    finish(page, "greedy", before)
    assert trace_of(page, "greedy").media[0].width == 64
    # What is refused on its way has said why, and nothing runs.
    open_page.pages.expected = BAD
    held.clear()
    before = run_id(page, "greedy")
    give(page, b"no picture", name="a.png")
    expect(picture(page).get_by_role("status")).to_have_text("Sending…")
    start(page, "greedy")
    held[0].continue_()
    expect(picture(page).get_by_role("alert")).to_contain_text("it must be a picture as PNG, JPEG")
    assert run_id(page, "greedy") == before
    assert not page.evaluate("playground.page.activity('greedy')")


def test_an_upload_is_captioned_live_and_is_above_the_text(open_page, eyes):
    page = with_model(open_page, eyes, "beam_search")
    sent = []
    page.on("request", lambda r: r.method == "POST" and "/media/" in r.url and sent.append(r))
    data = picture_file(64, 48)
    give(page, data, "beam_search")
    field = page.locator("#beam_search-image")
    expect(field.locator("figcaption")).to_contain_text("64 × 48 pixels")
    expect(field.get_by_role("img", name="The picture that the model is given")).to_be_visible()
    run(page, "beam_search")
    stage = page.locator("#beam_search-stage")
    given = stage.locator(".dp-v-media")
    expect(given.get_by_role("img")).to_have_attribute(
        "alt", "The picture that the model was given, 64 × 48 pixels"
    )
    trace = trace_of(page, "beam_search")
    [info] = trace.media
    assert (info.kind, info.width, info.height) == ("image", 64, 48)
    # The address names it by its hash and holds nothing of it.
    said = address(page, "image=")
    assert parse_qs(urlsplit(said).query)["image"] == [f"held:{info.sha256}"]
    assert info.preview[:40] not in said
    # It was sent once, and a second run reads it again.
    run(page, "beam_search")
    assert trace_of(page, "beam_search").media == trace.media
    assert len(sent) == 1
    settled(page)
    shot(page, "media-upload")
    assert fits(page)


@pytest.mark.nightly
def test_what_is_no_picture_is_said_below_and_nothing_else_is_lost(open_page, eyes):
    page = with_model(open_page, eyes)
    open_page.pages.expected = BAD
    field = picture(page)
    give(page, picture_file(64, 48))
    expect(field.locator("figcaption")).to_contain_text("64 × 48 pixels")
    give(page, b"no picture", name="a.png")
    expect(field.get_by_role("alert")).to_contain_text("it must be a picture as PNG, JPEG")
    expect(field.locator("figcaption")).to_contain_text("64 × 48 pixels")
    field.get_by_role("button", name="Remove the picture").click()
    expect(field.locator("figure")).to_have_count(0)
    expect(field.get_by_role("status")).to_have_text("The picture is removed.")
    run_before = run_id(page, "greedy")
    start(page, "greedy")
    expect(field.get_by_role("alert")).to_contain_text("needs a picture")
    assert run_id(page, "greedy") == run_before


@pytest.mark.nightly
def test_what_is_too_large_is_not_sent_at_all(open_page, eyes):
    page = with_model(open_page, eyes)
    sent = []
    page.on("request", lambda r: r.method == "POST" and "/media/" in r.url and sent.append(r.url))
    give(page, b"\0" * 20_100_000)
    said = "This picture has 20.1 MB; up to 20.0 MB can be sent."
    expect(picture(page).get_by_role("alert")).to_have_text(said)
    assert not sent


@pytest.mark.nightly
def test_a_picture_is_pasted_and_dropped(open_page, eyes):
    page = with_model(open_page, eyes)
    field = picture(page)
    expect(field).to_be_visible()
    page.evaluate(PASTE, [list(picture_file(30, 20)), "image/png"])
    expect(field.locator("figcaption")).to_contain_text("30 × 20 pixels")
    data = page.evaluate_handle(
        """(bytes) => {
          const data = new DataTransfer();
          data.items.add(new File([new Uint8Array(bytes)], "d.png", { type: "image/png" }));
          return data;
        }""",
        list(picture_file(50, 40)),
    )
    field.locator(".md-zone").dispatch_event("drop", {"dataTransfer": data})
    expect(field.locator("figcaption")).to_contain_text("50 × 40 pixels")


@pytest.mark.nightly
def test_a_photo_is_taken_and_the_camera_goes_out(with_devices, eyes):
    page = with_model(with_devices, eyes)
    field = picture(page)
    field.get_by_role("button", name="Take a photo").click()
    expect(field.get_by_label("What the camera sees")).to_be_visible()
    assert page.evaluate(LIVE) == 1
    shot(page, "media-camera")
    expect(field.get_by_role("button", name="Take it")).to_be_enabled()
    field.get_by_role("button", name="Take it").press("Enter")
    expect(field.locator("figcaption")).to_contain_text("pixels")
    assert page.evaluate(LIVE) == 0
    expect(field.get_by_role("button", name="Take a photo")).to_be_focused()
    # Whoever thinks better of it leaves what was there.
    field.get_by_role("button", name="Take a photo").click()
    expect(field.get_by_label("What the camera sees")).to_be_visible()
    page.keyboard.press("Escape")
    expect(field.locator("video")).to_have_count(0)
    assert page.evaluate(LIVE) == 0
    expect(field.locator("figcaption")).to_contain_text("pixels")
    run(page, "greedy")
    assert trace_of(page, "greedy").media[0].kind == "image"


@pytest.mark.nightly
def test_a_recording_is_sent_as_16_khz_and_the_microphone_goes_out(with_devices, ears):
    page = with_model(with_devices, ears)
    field = sound(page)
    field.get_by_role("button", name="Record").click()
    expect(field.get_by_role("status").first).to_have_text("Recording, up to 30 seconds.")
    expect(field.locator(".md-level")).to_contain_text(re.compile(r"[1-9] s of 30 s · (−\d+|0) dB"))
    shot(page, "media-recording")
    assert page.evaluate(LIVE) == 1
    field.get_by_role("button", name="Stop recording").press("Enter")
    expect(field.locator("figcaption")).to_contain_text(re.compile(r"\d\.\d s · \d+ kB"))
    assert page.evaluate(LIVE) == 0
    expect(field.locator("audio")).to_have_attribute("src", re.compile("^blob:"))
    run(page, "greedy")
    [info] = trace_of(page, "greedy").media
    assert (info.kind, info.rate) == ("audio", 16_000)
    assert max(info.peaks) > 0.01, "the fake microphone beeps"
    drawn = page.locator("#greedy-stage .dp-v-media")
    expect(drawn.get_by_role("img")).to_have_attribute("aria-label", re.compile("seconds of sound"))
    settled(page)
    shot(page, "media-sound")


@pytest.mark.nightly
def test_a_sound_file_is_sent_as_it_is(open_page, ears):
    page = with_model(open_page, ears)
    give(page, sound_file(1.5, 22_050), kind="audio", name="a.wav", mime="audio/wav")
    expect(sound(page).locator("figcaption")).to_contain_text("1.5 s · 67 kB")
    run(page, "greedy")
    assert trace_of(page, "greedy").media[0].rate == 22_050


@pytest.mark.skipif(not PICTURES, reason="no picture came along")
def test_an_example_is_chosen_with_the_keyboard_and_is_in_the_link(open_page, eyes):
    page = with_model(open_page, eyes)
    first = PICTURES[0]
    pick = picture(page).get_by_role("button", name=first.alt or first.title, exact=True)
    pick.focus()
    page.keyboard.press("Enter")
    expect(pick).to_have_attribute("aria-pressed", "true")
    run(page, "greedy")
    assert trace_of(page, "greedy").media[0].example == first.name
    said = urlsplit(address(page, "image=example"))
    assert parse_qs(said.query)["image"] == [f"example:{first.name}"]


@pytest.mark.nightly
def test_a_link_without_its_picture_says_so_to_others_and_not_to_whose_it_is(open_page, eyes):
    page = with_model(open_page, eyes)
    give(page, picture_file(33, 44))
    run(page, "greedy")
    search = urlsplit(address(page, "image=")).query
    other = open_page("/?" + search)
    expect(status(other, "greedy")).to_contain_text("This link asks for")
    # The same page loaded anew shows the run and its picture again.
    page.reload()
    field = page.locator("#greedy-image")
    expect(field.locator("figcaption")).to_contain_text("33 × 44 pixels")
    run(page, "greedy")
    assert trace_of(page, "greedy").media[0].width == 33


@pytest.mark.nightly
def test_on_a_phone_in_german_and_in_the_dark(open_page, eyes):
    page = with_model(open_page, eyes, path="/?lang=de&__theme=dark", width=390, height=844)
    field = page.get_by_role("group", name="Bild")
    expect(field).to_contain_text("Ein Bild hierher ziehen")
    start(page, "greedy")
    expect(field.get_by_role("alert")).to_contain_text("Dieses Modell braucht ein Bild")
    give(page, b"no picture", name="a.png")
    open_page.pages.expected = BAD
    expect(field.get_by_role("alert")).to_contain_text("ist nicht erlaubt")
    give(page, picture_file(640, 480))
    expect(field.locator("figcaption")).to_contain_text("640 × 480 Pixel")
    assert fits(page)
    settled(page)
    shot(page, "media-390-dark")


@pytest.mark.nightly
def test_nobody_meets_a_serious_obstacle(open_page, eyes):
    for theme in ("light", "dark"):
        page = with_model(open_page, eyes, path=f"/?__theme={theme}")
        give(page, picture_file(64, 48))
        expect(picture(page).locator("figcaption")).to_contain_text("64 × 48 pixels")
        run(page, "greedy")
        settled(page)
        assert grave(page) == []
