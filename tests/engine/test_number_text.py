"""Numbers as explanations write them."""

from __future__ import annotations

import pytest

from engine.number_text import format_distinct, format_number, format_percent, format_share


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (1.0, "100 %"),
        (0.99999, ">99.99 %"),
        (0.9996, "99.96 %"),
        (0.5, "50.0 %"),
        (0.0512, "5.12 %"),
        (0.00069, "0.069 %"),
        (0.000012, "0.0012 %"),
        (1e-9, "<0.0001 %"),
        (0.0, "0 %"),
    ],
)
def test_a_percentage_is_as_exact_as_on_the_page(p, text):
    assert format_percent(p) == text


def test_a_number_has_two_decimals_or_two_digits_if_it_is_small():
    numbers = (1.16, 0.698, 0.00698, 48.23, 1234.5, -2e-7)
    texts = ["1.16", "0.70", "0.0070", "48.2", "1,234", "−2.0 × 10⁻⁷"]
    assert [format_number(number) for number in numbers] == texts
    assert format_distinct(0.698, 0.701) == ("0.698", "0.701")
    assert format_share(0.9996) == "0.9996"
