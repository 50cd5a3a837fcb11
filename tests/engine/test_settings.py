"""Every limit can be set by its own environment variable."""

from __future__ import annotations

from dataclasses import asdict, fields

import pytest

from engine.settings import Settings, read_settings

LIMITS = [field for field in fields(Settings) if not isinstance(field.default, bool)]


def test_nothing_set_is_the_defaults():
    assert read_settings({}) == Settings()


def test_every_limit_is_set_by_its_variable_and_by_no_other():
    other, wrong = {str: "some", float: 7.5, int: 7}, []
    for limit in LIMITS:
        variable, value = f"PLAYGROUND_{limit.name.upper()}", other[type(limit.default)]
        found = asdict(read_settings({variable: str(value)}))
        if found != {**asdict(Settings()), limit.name: value}:
            wrong.append(f"{variable} = {value} does not set {limit.name} alone")
        if type(limit.default) is not str:
            with pytest.raises(ValueError, match=f"{variable} = 'many'"):
                read_settings({variable: "many"})
    assert len(LIMITS) > 20
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("said", "wanted"), [("0", False), ("no", False), ("1", True)])
def test_graphs_can_be_left_out(said, wanted):
    assert read_settings({"PLAYGROUND_CUDA_GRAPHS": said}).cuda_graphs is wanted


@pytest.mark.parametrize(
    ("environ", "public"),
    [
        ({"SPACE_ID": "owner/name"}, True),
        ({"SPACE_ID": ""}, False),
        ({"PLAYGROUND_PUBLIC": "true"}, True),
        ({"SPACE_ID": "owner/name", "PLAYGROUND_PUBLIC": "0"}, False),
    ],
    ids=str,
)
def test_a_space_is_public_unless_it_is_said(environ, public):
    assert read_settings(environ).public is public
