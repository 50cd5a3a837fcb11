"""The page has five sizes of type and one scale of spaces, so that alike things look alike."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SHEETS = subprocess.run(
    ["git", "ls-files", "*.css"], cwd=ROOT, capture_output=True, text=True, check=True
).stdout.split()
RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
PRINT = re.compile(r"@media print\s*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}")
FONT = re.compile(r"(?:^|[;\s])font(?:-size)?:\s*([^;]+)")
TOKEN = re.compile(r"var\(--dp-t[1-5]\)")
# Read from across a room: the presented card, and the code that a class types.
FROM_AFAR = re.compile(r"\.ls-present|\.rm-code")
# Signs and formulas are as large as the text that they belong to.
RELATIVE = re.compile(r"::before|::after|\bsup\b|\bmath\b|\.fm-")
SPACE = re.compile(r"(?:^|[;\s])(?:(?:margin|padding)(?:-\w+)*|(?:row-|column-)?gap):\s*([^;]+)")
SPACES = {0, 2, 4, 8, 12, 16, 24, 32, 48}
# What a column or a picture measures has a name or a sum: its width is no space.
MEASURED = re.compile(r"(?:calc|var)\([^()]*(?:\([^()]*\)[^()]*)*\)")
LENGTH = re.compile(r"-?[\d.]+(?:[a-z%]+)?")


def is_space(length: str) -> bool:
    """Return whether a length is on the scale, or moves a mark by half its own width."""
    number = float(length.removesuffix("px")) if re.fullmatch(r"-?[\d.]+(px)?", length) else 0.5
    return abs(number) in SPACES or -2 <= number < 0


def other_spaces(text: str) -> list[str]:
    """Return the margins, paddings and gaps of a style sheet that are not on the scale."""
    plain = PRINT.sub("", re.sub(r"/\*.*?\*/", "", text, flags=re.S))
    return [
        f"{selector.strip()} {{ {value} }}"
        for selector, body in RULE.findall(plain)
        if not FROM_AFAR.search(selector) and not RELATIVE.search(selector)
        for value in SPACE.findall(body)
        if not all(map(is_space, LENGTH.findall(MEASURED.sub("", value))))
    ]


def other_sizes(text: str) -> list[str]:
    """Return the declarations of a style sheet whose font size is none of the five."""
    plain = PRINT.sub("", re.sub(r"/\*.*?\*/", "", text, flags=re.S))
    found = []
    for selector, body in RULE.findall(plain):
        for value in FONT.findall(body):
            relative = RELATIVE.search(selector) and re.search(r"\dem\b", value)
            known = TOKEN.search(value) or value.split("!")[0].strip() in ("inherit", "0")
            if not (known or relative or FROM_AFAR.search(selector)):
                found.append(f"{selector.strip()} {{ font: {value} }}")
    return found


@pytest.mark.parametrize("sheet", SHEETS)
def test_a_style_sheet_uses_the_five_sizes_of_type(sheet):
    assert other_sizes((ROOT / sheet).read_text()) == []


@pytest.mark.parametrize("sheet", SHEETS)
def test_a_style_sheet_uses_one_scale_of_spaces(sheet):
    assert other_spaces((ROOT / sheet).read_text()) == []


@pytest.mark.parametrize(
    "text",
    [".a { margin: 0 5px; }", ".a{gap:.5em}", ".a { padding-left: 8.5px }", ".a{margin:-3px}"],
)
def test_another_space_is_found(text):
    assert len(other_spaces(text)) == 1


def test_measured_places_and_half_marks_are_no_spaces():
    assert other_spaces(".a { margin: 0 auto 0 calc(112px + 12px); padding: var(--a) 8px }") == []
    assert other_spaces(".a { margin-left: -1.5px } .a::before { margin: 0 .3em }") == []


@pytest.mark.parametrize(
    "text", [".a { font-size: 12px; }", ".a{font:600 .8rem/1 serif}", ".a { font-size: 1.1em }"]
)
def test_another_size_is_found(text):
    assert len(other_sizes(text)) == 1


def test_print_and_what_is_read_from_afar_have_sizes_of_their_own():
    assert other_sizes("@media print { .a { font-size: 9pt } } .b { font: inherit }") == []
    assert other_sizes(".ls-present .a { font-size: 24px } sup { font-size: .7em }") == []
