"""Drafts are found by comparing tokenizers, on this machine and in the catalogue, without loading any weights."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
import transformers
from huggingface_hub import constants

from engine import DecodeRequest, load
from engine.cli.main import main
from engine.models import draft_pairs, vocabularies
from engine.models.draft_pairs import early_exit_reason, find_draft_pairs, list_local_models
from engine.models.vocabularies import read_vocabulary
from engine.sources import source
from engine.sources.catalogue import MODEL_DIR
from engine.sources.source import Hub, Source
from tests.helpers.hub import SHA
from tests.helpers.models import fresh_model, tiny_llama
from tests.helpers.runs import failed, finished
from tests.helpers.sentences import clean
from tests.helpers.tokenizers import KINDS, make_tokenizer, renumbered, tokenizer_of

OURS = make_tokenizer(300)


def write(folder, layers, tokenizer=OURS, **settings):
    """Make a folder with a tiny model and a tokenizer; return its path."""
    model = tiny_llama(layers, vocab_size=len(tokenizer), eos_token_id=2, seed=layers, **settings)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """Return a folder of models: a target, a draft that fits, and others that do not."""
    place = tmp_path / "shelf"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    write(place / "target", 6)
    write(place / "draft", 1)
    write(place / "padded", 2, make_tokenizer(300))
    write(place / "larger", 8)
    write(place / "foreign", 2, make_tokenizer(280))
    numbers = [*range(3), *reversed(range(3, len(OURS)))]
    write(place / "renumbered", 2, renumbered(OURS, numbers))
    fresh_model("t5").save_pretrained(place / "translator")
    (place / "no model").mkdir()
    (place / "damaged").mkdir()
    (place / "damaged" / "config.json").write_text("{")
    return place


@pytest.fixture
def nothing_loads(monkeypatch):
    def forbidden(*args, **kwargs):
        pytest.fail("weights were loaded")

    monkeypatch.setattr(transformers.PreTrainedModel, "from_pretrained", forbidden)
    monkeypatch.setattr("torch.load", forbidden)
    monkeypatch.setattr("safetensors.torch.load_file", forbidden)


def names(found):
    return [Path(pair.name).name for pair in found]


@pytest.mark.usefixtures("nothing_loads")
def test_what_shares_a_tokenizer_and_is_smaller_can_draft(shelf):
    found = find_draft_pairs(Source.parse(str(shelf / "target")), "same_tokenizer")
    assert names(found) == ["draft", "padded"]
    assert all(pair.shares for pair in found)
    for pair in found:
        assert f"All {len(OURS):,} tokens mean the same in both" in clean(pair.reason, most=200)
    assert found[0].values < found[1].values


def test_what_is_offered_is_accepted_by_a_run_and_the_rest_is_not(shelf):
    target = load(str(shelf / "target"))
    asked = {"prompt": "the bear", "params": {"max_new_tokens": 4}}
    draft = load(str(shelf / "draft"))
    assert finished(DecodeRequest("speculative", target, assistant=draft, **asked)).steps
    for name in ("foreign", "renumbered"):
        other = load(str(shelf / name))
        said = failed(DecodeRequest("speculative", target, assistant=other, **asked))
        assert "their tokenizers differ" in str(said)


def test_a_model_that_is_alone_with_its_tokenizer_drafts_for_itself(monkeypatch):
    [pair] = find_draft_pairs(Source.parse("foreign-draft"), "same_tokenizer")
    assert pair.name == "foreign-draft"
    assert "with fewer bits" in clean(pair.reason, most=200)
    asked = {"model": pair.name, "prompt": "the bear", "params": {"max_new_tokens": 8}}
    drafted = finished(
        DecodeRequest(
            "speculative",
            assistant=pair.name,
            weights={"assistant_quantization": "8bit"},
            **asked,
        )
    )
    assert drafted.assistant.weights.quantization == "8bit"
    assert (
        drafted.outputs[0].token_ids
        == finished(DecodeRequest("greedy", **asked)).outputs[0].token_ids
    )
    monkeypatch.setattr(
        draft_pairs, "SETTINGS", dataclasses.replace(draft_pairs.SETTINGS, public=True)
    )
    assert find_draft_pairs(Source.parse("foreign-draft"), "same_tokenizer") == []


@pytest.mark.usefixtures("nothing_loads")
def test_another_tokenizer_is_offered_to_what_translates(shelf):
    found = find_draft_pairs(Source.parse(str(shelf / "target")), "any_tokenizer")
    here = [pair for pair in found if pair.name.startswith(str(shelf))]
    assert set(names(here)) == {"foreign", "renumbered"}
    assert all("translated" in pair.reason for pair in here)
    assert "translator" not in names(found)


def test_other_ends_of_a_text_are_named(shelf):
    path = shelf / "draft" / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "eos_token_id": [2, 7]}))
    [draft, _] = find_draft_pairs(Source.parse(str(shelf / "target")), "same_tokenizer")
    assert "other ones end a text" in draft.reason


def test_the_catalogue_alone_is_named_as_such(shelf):
    [pair] = find_draft_pairs(Source.parse("HuggingFaceTB/SmolLM2-360M"), "same_tokenizer")
    assert pair.name == "HuggingFaceTB/SmolLM2-135M"
    assert (pair.shares, pair.values) == (None, None)
    assert "it would be fetched first" in pair.reason
    assert [
        pair.name for pair in find_draft_pairs(Source.parse("storyteller"), "same_tokenizer")
    ] == ["storyteller-draft"]


def test_the_catalogue_is_not_believed_against_the_files(monkeypatch):
    entry = draft_pairs.CATALOGUE["foreign-draft"]
    wrong = dataclasses.replace(entry, fits=("storyteller",))
    monkeypatch.setitem(draft_pairs.CATALOGUE, "foreign-draft", wrong)
    assert [p.name for p in find_draft_pairs(Source.parse("storyteller"), "same_tokenizer")] == [
        "storyteller-draft"
    ]


def into_cache(folder, name, source):
    """Put a model into the hub's cache as a download leaves it."""
    own = folder / f"models--{name.replace('/', '--')}"
    shutil.copytree(source, own / "snapshots" / SHA)
    (own / "refs").mkdir()
    (own / "refs" / "main").write_text(SHA)


def test_the_hubs_cache_is_searched(shelf, tmp_path):
    cache = tmp_path / "cache"
    into_cache(cache, "someone/small", shelf / "draft")
    into_cache(cache, "someone/half-fetched", shelf / "draft")
    for weights in (cache / "models--someone--half-fetched").rglob("*.safetensors"):
        weights.unlink()
    assert Hub("someone/small") in list_local_models()
    assert Hub("someone/half-fetched") not in list_local_models()
    found = find_draft_pairs(Source.parse(str(shelf / "target")), "same_tokenizer")
    assert "someone/small" in [pair.name for pair in found]


def test_a_public_deployment_names_only_what_it_offers(shelf, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    for name in ("someone/offered", "someone/private"):
        into_cache(cache, name, shelf / "draft")
    settings = dataclasses.replace(source.SETTINGS, public=True, allowed_models="someone/offered")
    for module in (draft_pairs, source):
        monkeypatch.setattr(module, "SETTINGS", settings)
    found = list_local_models(Source.find(str(shelf / "target")))
    assert Hub("someone/offered") in found
    assert Hub("someone/private") not in found
    assert not [each for each in found if each.name.startswith("/")]


@pytest.mark.parametrize("kind", KINDS)
def test_a_vocabulary_is_that_of_the_tokenizer(kind, tmp_path):
    tokenizer = tokenizer_of(kind)
    tokenizer.add_tokens(["<extra>"])
    tokenizer.save_pretrained(tmp_path)
    assert vocabularies._read_tokens(tmp_path) == tokenizer.get_vocab()


@pytest.mark.parametrize(
    "name", ["storyteller", "storyteller-draft", "foreign-draft", "storyfixer"]
)
def test_a_vocabulary_is_that_of_an_embedded_model(name):
    assert vocabularies._read_tokens(MODEL_DIR / name) == load(name).tokenizer.get_vocab()


def test_a_folder_is_read_once_and_again_when_it_has_changed(shelf, monkeypatch):
    read, tokens = [], vocabularies._read_tokens

    def counted(folder):
        read.append(folder)
        return tokens(folder)

    monkeypatch.setattr(vocabularies, "_read_tokens", counted)
    folder = str(shelf / "draft")
    first = read_vocabulary(folder)
    assert read_vocabulary(folder) is first
    assert len(read) == 1
    spec = json.loads((shelf / "draft" / "tokenizer.json").read_text())
    spec["added_tokens"].append({**spec["added_tokens"][0], "id": 900, "content": "<more>"})
    (shelf / "draft" / "tokenizer.json").write_text(json.dumps(spec))
    assert read_vocabulary(folder).digest != first.digest
    assert read_vocabulary(folder).size == first.size + 1


def test_a_tokenizer_that_cannot_be_read_is_none(tmp_path):
    assert read_vocabulary(str(tmp_path)) is None
    for text in ("{", "[]", "{}", '{"model": {"vocab": 5}}', '{"model": {"vocab": {"a": "b"}}}'):
        (tmp_path / "tokenizer.json").write_text(text)
        found = read_vocabulary(str(tmp_path))
        assert found is None or found.size == 1


def test_models_made_for_early_exit_are_recognised_by_their_files(shelf):
    folder = shelf / "target"
    assert early_exit_reason(Source.parse(str(folder))) is None
    assert "LayerSkip" in early_exit_reason(Source.parse("facebook/layerskip-llama3.2-1B"))
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "early_exit_layers": [4]}))
    assert "has the field early_exit_layers" in early_exit_reason(Source.parse(str(folder)))
    path = folder / "generation_config.json"
    path.write_text(json.dumps({"assistant_early_exit": 4}))
    assert "assistant_early_exit = 4" in early_exit_reason(Source.parse(str(folder)))


def test_the_command_names_the_drafts(shelf, capsys):
    target = str(shelf / "target")
    assert main(["list", "--drafts-for", target]) == 0
    said = capsys.readouterr().out
    assert said.index("speculative:") < said.index(str(shelf / "draft"))
    assert said.index("universal_assisted:") < said.index(str(shelf / "foreign"))
    assert "early_exit: no sign" in said
    assert main(["list", "--json", "--drafts-for", target]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [Path(d["name"]).name for d in told["drafts"]["speculative"]] == ["draft", "padded"]
    assert main(["list", "--drafts-for", "no such"]) == 2
    assert "is not allowed" in capsys.readouterr().err
