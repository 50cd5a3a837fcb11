"""The encoder-decoder presets: the embedded T5 mends a sentence."""

from __future__ import annotations

import pytest

from engine import STRATEGIES, DecodeRequest
from tests.helpers.runs import finished
from training.evaluate import edits

WHOLE = {
    "greedy": 'He showed it to Mia and said, "Look, Mia!"',
    "beam_search": "Jane was sad and she was very embarrassed.",
}


@pytest.mark.parametrize("strategy", WHOLE)
def test_the_preset_mends_most_of_its_sentence(strategy):
    preset = next(p for p in STRATEGIES[strategy].presets if p.model == "storyfixer")
    request = DecodeRequest(strategy, preset.model, preset.prompt, params=preset.params)
    output = finished(request).outputs[0]
    assert output.finish_reason == "eos"
    damage = edits(preset.prompt, WHOLE[strategy])
    assert edits(output.text.strip(), WHOLE[strategy]) <= damage / 3
