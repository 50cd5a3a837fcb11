"""The hint to pin the version of transformers names what a method uses of its private parts."""

from __future__ import annotations

import dataclasses

from engine.sandbox.folder import read_method
from engine.sandbox.method_check import _check_source
from engine.sandbox.method_templates import create_method
from engine.sandbox.private_names import find_private_names

SOURCE = b"""
from transformers.generation.utils import _split_model_inputs, GenerationMixin
from elsewhere import _own
def generate(model, input_ids, **kwargs):
    kwargs = model._update_model_kwargs_for_generation(kwargs)
    return model.__class__, self._mine, model.generate(input_ids)
"""


def test_private_names_of_transformers_are_found_and_no_others():
    found = find_private_names({"custom_generate/generate.py": SOURCE, "README.md": b"model._x"})
    assert found == ["_split_model_inputs", "_update_model_kwargs_for_generation"]


def test_a_method_that_uses_them_is_asked_to_pin_the_version(tmp_path):
    method = read_method(create_method(tmp_path / "mine", "next_token"))
    told = {check.what: check.told for check in _check_source(method)}
    assert told["requirements"] in ("met", "none")
    files = {**method.files, "custom_generate/other.py": SOURCE}
    told = {c.what: c.told for c in _check_source(dataclasses.replace(method, files=files))}
    assert "pin the version in custom_generate/requirements.txt" in told["requirements"]
    files["custom_generate/requirements.txt"] = b"transformers==5.23.0\n"
    told = {c.what: c.told for c in _check_source(dataclasses.replace(method, files=files))}
    assert told["requirements"] == "met"
