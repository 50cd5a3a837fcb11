"""A model's folder with odd values: one sentence that names file and field, or the run it is worth."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from engine import DecodeRequest
from engine.sources.catalogue import MODEL_DIR
from tests.helpers.nightly import mark_nightly
from tests.helpers.runs import failed, finished

EMBEDDED = MODEL_DIR / "storyteller-draft"
CHAT = [{"role": "user", "content": "hi"}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EMBEDDED, tmp_path / "m"))


def change(folder: Path, file: str, values: dict[str, Any]) -> None:
    path = folder / file
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def asked(folder: Path, **more: Any) -> DecodeRequest:
    given = {"prompt": "Once"} | more
    return DecodeRequest("greedy", str(folder), params={"max_new_tokens": 2}, **given)


GENERATION = [
    ("eos_token_id", []),
    ("eos_token_id", [0, "14"]),
    ("pad_token_id", [0, 5]),
    ("watermarking_config", 3),
    ("eos_token_id", 10**30),
    *mark_nightly(
        [
            ("eos_token_id", [[0]]),
            ("eos_token_id", {"a": 1}),
            ("eos_token_id", "</s>"),
            ("eos_token_id", 1.5),
            ("eos_token_id", True),
            ("pad_token_id", "0"),
            ("bos_token_id", "x"),
            ("decoder_start_token_id", "x"),
            ("cache_implementation", "odd"),
            ("compile_config", 4),
        ]
    ),
]
CONFIG = [
    ("eos_token_id", "x"),
    ("rms_norm_eps", "small"),
    ("hidden_act", "swishy"),
    ("model_type", "unknown_kind"),
    ("pad_token_id", 99_999_999),
    # Of fields that its class does not have, some are read all the same.
    ("sliding_window", "128"),
    ("decoder_layers", "x"),
    *mark_nightly(
        [
            ("eos_token_id", []),
            ("pad_token_id", [0, 1]),
            ("bos_token_id", "x"),
            ("hidden_size", "64"),
            ("num_attention_heads", 0),
            ("tie_word_embeddings", "yes"),
            ("model_type", None),
            ("model_type", 5),
            ("head_dim", "x"),
            ("max_position_embeddings", -4),
            ("rope_parameters", 3),
            ("id2label", 3),
            ("quantization_config", 3),
            ("num_labels", "x"),
            ("attention_bias", "x"),
            ("num_key_value_heads", 0),
            ("base_model_tp_plan", 3),
            ("num_hidden_layers", 0),
            ("num_hidden_layers", 2.5),
            ("hidden_size", True),
            ("eos_token_id", -(10**30)),
            ("sliding_window", [3]),
            ("sliding_window", 2.5),
            ("attention_chunk_size", "8"),
            ("num_decoder_layers", "2"),
            ("num_mtp_layers", "2"),
            ("initializer_range", "0.02"),
            ("rms_norm_eps", "1e-6"),
            ("attention_dropout", "0.1"),
            ("intermediate_size", "352"),
            ("num_key_value_heads", "2"),
            ("is_encoder_decoder", True),
            ("is_encoder_decoder", "x"),
        ]
    ),
]
TOKENIZER = [
    ("tokenizer_config.json", "eos_token", 5),
    ("tokenizer_config.json", "model_max_length", "long"),
    *mark_nightly(
        [
            ("tokenizer_config.json", "tokenizer_class", 5),
            ("tokenizer_config.json", "added_tokens_decoder", {"5": 3}),
            ("tokenizer_config.json", "extra_special_tokens", 5),
            ("tokenizer_config.json", "padding_side", "up"),
            ("tokenizer_config.json", "model_input_names", 3),
            ("special_tokens_map.json", "eos_token", 5),
        ]
    ),
]


@pytest.mark.parametrize(("field", "value"), GENERATION)
def test_an_odd_value_of_the_generation_config_is_named(folder, field, value):
    change(folder, "generation_config.json", {field: value})
    start = f"The model's generation_config.json has {field} = {value!r}, which "
    assert str(failed(asked(folder))).startswith(start)


@pytest.mark.parametrize(("field", "value"), CONFIG)
def test_an_odd_value_of_the_config_is_named(folder, field, value):
    change(folder, "config.json", {field: value})
    said = str(failed(asked(folder)))
    assert said.startswith(f"The model's config.json has {field} = {value!r}"), said


@pytest.mark.parametrize(
    ("file", "values"),
    [
        ("config.json", {"auto_map": {"AutoModelForCausalLM": "modeling_x.X"}}),
        ("config.json", {"_attn_implementation_autoset": True}),
        ("config.json", {"output_attentions": True, "return_dict": False}),
        ("generation_config.json", {"temperature": "hot", "eos_token_id": [0, 5]}),
    ],
)
def test_what_transformers_ignores_is_no_reason_to_refuse(folder, file, values):
    expected = finished(asked(EMBEDDED)).outputs[0].text
    change(folder, file, values)
    assert finished(asked(folder)).outputs[0].text == expected


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"hidden_size": 96}, "model.embed_tokens.weight has the shape 4096 × 192, and 4096 × 96"),
        *mark_nightly(
            [
                (
                    {"vocab_size": 1000},
                    "model.embed_tokens.weight has the shape 4096 × 192, and 1000",
                ),
                ({"num_key_value_heads": 1}, "k_proj.weight has the shape 96 × 192, and "),
                (
                    {"intermediate_size": 16},
                    "mlp.down_proj.weight has the shape 192 × 352, and 192 × 16",
                ),
            ]
        ),
    ],
)
def test_weights_of_other_shapes_are_named(folder, values, said):
    change(folder, "config.json", values)
    found = str(failed(asked(folder)))
    assert "does not fit its config.json: " in found
    assert said in found


@pytest.mark.parametrize(("file", "field", "value"), TOKENIZER)
def test_an_odd_value_of_the_tokenizers_files_is_named(folder, file, field, value):
    if not (folder / file).exists():
        (folder / file).write_text("{}")
    change(folder, file, {field: value})
    said = str(failed(asked(folder)))
    assert said.startswith(f"The model's {file} has {field} = {value!r}, which "), said


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("adapter_config.json", "null"),
        ("added_tokens.json", "[]"),
        *mark_nightly(
            [
                ("adapter_config.json", "["),
                ("generation_config.json", "[" * 5000),
                ("generation_config.json", f'{{"eos_token_id": {"9" * 5000}}}'),
                ("special_tokens_map.json", "\ufeff{}"),
                ("tokenizer_config.json", "[]"),
                ("chat_template.jinja", "\udcff"),
            ]
        ),
    ],
)
def test_a_file_that_is_no_object_is_named(folder, file, text):
    (folder / file).write_bytes(text.encode("utf-8", "surrogateescape"))
    assert str(failed(asked(folder))).startswith(f"The model's {file} ")


@pytest.mark.parametrize("text", ["{}", "3", *mark_nightly(["[]", "", '{"model": {}}', "null"])])
def test_a_tokenizer_file_that_is_none_is_named(folder, text):
    (folder / "tokenizer.json").write_text(text)
    assert str(failed(asked(folder))).startswith("The model's tokenizer.json cannot be read (")


@pytest.mark.parametrize(
    "text", ["{{", "\n{% for %}", *mark_nightly(["{% if %}", "{{ a|nofilter }}"])]
)
def test_a_chat_template_that_does_not_parse_is_the_models_mistake(folder, text):
    (folder / "chat_template.jinja").write_text(text)
    said = str(failed(asked(folder, prompt=None, messages=CHAT)))
    line = 2 if text.startswith("\n") else 1
    assert said.startswith(
        f"The model's chat template has a mistake in line {line} and cannot be used"
    )


def test_a_chat_template_that_is_no_text_is_named(folder):
    change(folder, "tokenizer_config.json", {"chat_template": 3})
    said = str(failed(asked(folder, prompt=None, messages=CHAT)))
    assert said.endswith("has a chat template that is no text.")


def test_a_method_that_a_model_brings_is_named_where_it_does_not_run(folder):
    assert not finished(asked(folder)).notes
    (folder / "custom_generate").mkdir()
    (folder / "custom_generate" / "generate.py").write_text("def generate(model): pass\n")
    [note] = finished(asked(folder)).notes
    assert note.endswith(
        "brings its own generation method in custom_generate/generate.py; only the "
        "strategy custom runs such a method."
    )


def test_a_draft_model_that_nothing_uses_is_named():
    request = DecodeRequest(
        "prompt_lookup",
        "storyteller",
        "Once",
        params={"max_new_tokens": 2},
        assistant="storyteller-draft",
    )
    said = "assistant = storyteller-draft is not used: Prompt lookup has no draft model."
    assert said in finished(request).notes
