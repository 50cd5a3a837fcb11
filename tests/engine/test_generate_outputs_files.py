"""transformers' outputs in a file: what is read back is what was written, and the command line writes it."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from engine import DecodeRequest
from engine.analysis.generate_outputs import rerun_generate
from engine.analysis.generate_outputs_files import (
    FORMAT,
    OutputFileError,
    load_output,
    output_metadata,
    output_to_bytes,
    save_output,
)
from engine.analysis.generate_outputs_flags import OutputFlags
from engine.cli.main import main
from engine.settings import SETTINGS
from engine.trace import json_io
from tests.helpers.models import golden_model
from tests.helpers.rich import EVERYTHING, differs
from tests.helpers.runs import finished
from tests.helpers.sentences import clean

RUNS = {
    "greedy-llama": ("greedy", "llama", {}),
    "beam_search-llama": ("beam_search", "llama", {"num_beams": 3, "num_return_sequences": 2}),
    "sampling-t5": ("sampling", "t5", {"num_return_sequences": 2}),
    "beam_sampling-t5": ("beam_sampling", "t5", {"num_beams": 2}),
    "prompt_lookup-llama": ("prompt_lookup", "llama", {}),
}


def made(name):
    strategy, model, params = RUNS[name]
    loaded = golden_model(model)
    request = DecodeRequest(
        strategy, loaded, input_ids=[5, 9, 11, 4, 5, 9], params={"max_new_tokens": 6, **params}
    )
    trace = finished(request)
    return trace, rerun_generate(trace, loaded, **EVERYTHING)


@pytest.mark.parametrize("name", RUNS)
def test_a_file_read_back_is_the_same_object(name, tmp_path):
    trace, output = made(name)
    path = tmp_path / "deep" / "out.safetensors"
    metadata = output_metadata(trace, OutputFlags(**EVERYTHING))
    save_output(output, path, metadata)
    again = load_output(path)
    assert differs(again, output) == []
    assert again.past_key_values is None
    assert path.stat().st_size == len(output_to_bytes(output, metadata))
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    # Whoever has nothing of ours reads it, too.
    with safe_open(path, framework="pt") as file:
        names = set(file.keys())
        assert {"sequences", "scores.0", "logits.5"} <= names
        prefix = "decoder_" if name.endswith("t5") else ""
        for field in ("hidden_states", "attentions"):
            nested = getattr(output, prefix + field)
            tensor = file.get_tensor(f"{prefix}{field}.3.layer.2")
            assert torch.equal(tensor, nested[3][2])
        if name.endswith("t5"):
            assert torch.equal(
                file.get_tensor("encoder_attentions.layer.1"), output.encoder_attentions[1]
            )


def test_the_metadata_say_what_made_it(tmp_path):
    trace, output = made("greedy-llama")
    path = tmp_path / "out.safetensors"
    save_output(output, path, output_metadata(trace, OutputFlags(**EVERYTHING)))
    with safe_open(path, framework="pt") as file:
        told = file.metadata()
    assert told["format"] == FORMAT
    assert told["class"] == "GenerateDecoderOnlyOutput"
    assert (told["strategy"], told["model"], told["seed"]) == ("greedy", "llama", "0")
    assert json.loads(told["flags"]) == EVERYTHING
    assert json.loads(told["prompt_ids"]) == list(trace.prompt_ids)
    assert json.loads(told["recorded_with"]) == trace.versions
    assert json.loads(told["versions"])["torch"] == torch.__version__
    assert json.loads(told["config"])["max_new_tokens"] == 6
    assert (told["revision"], told["dtype"], told["device"]) == ("", "float32", "cpu")


def refused(act):
    with pytest.raises(OutputFileError) as caught:
        act()
    return clean(str(caught.value))


def test_files_that_hold_no_outputs(tmp_path):
    path = tmp_path / "odd.safetensors"
    assert "can be read" in refused(lambda: load_output(path))
    path.write_bytes(b"nothing of the kind")
    assert "can be read" in refused(lambda: load_output(path))
    some = {"sequences": torch.zeros(1, 2, dtype=torch.long)}
    save_file(some, path)
    assert "holds no outputs of generate()" in refused(lambda: load_output(path))
    known = {"format": FORMAT, "class": "GenerateDecoderOnlyOutput"}
    save_file(some, path, {**known, "class": "GenerationConfig"})
    assert "holds no outputs of generate()" in refused(lambda: load_output(path))
    one = torch.zeros(1)
    for names, said in (
        (["evil"], "has tensors that"),
        (["evil.0"], "has tensors that"),
        (["scores.1"], "has tensors that"),
        (["scores.0", "scores.1.layer.0"], "has tensors that"),
        (["hidden_states.7.layer.0"], "has tensors that"),
        (["a b"], "is no name of a tensor"),
        (["scores.0.1"], "is no name of a tensor"),
        (["scores.99999999"], "is no name of a tensor"),
    ):
        save_file(some | {name: one.clone() for name in names}, path, known)
        assert said in refused(lambda: load_output(path)), names


def test_a_layer_that_shows_nothing_stays_a_gap(tmp_path):
    _, output = made("greedy-llama")
    output.attentions = tuple((step[0], None, step[2]) for step in output.attentions)
    save_output(output, tmp_path / "out.safetensors")
    assert differs(load_output(tmp_path / "out.safetensors"), output) == []


def test_other_objects_and_places_are_refused(tmp_path):
    _, output = made("greedy-llama")
    assert "A dict is no output" in refused(lambda: output_to_bytes({"sequences": 1}))
    (tmp_path / "file").write_text("")
    assert "could not be written" in refused(lambda: save_output(output, tmp_path / "file" / "out"))


@pytest.fixture
def recorded(tmp_path):
    request = DecodeRequest("greedy", prompt="Once upon a time", params={"max_new_tokens": 5})
    path = tmp_path / "run.json.gz"
    json_io.save(finished(request), path)
    return path


def test_the_command_line_tells_the_size_and_writes_the_file(recorded, tmp_path, capsys):
    target = tmp_path / "out.safetensors"
    asked = ["--scores", "--logits", "--hidden-states", "--attentions"]
    assert main(["export-tensors", str(recorded), *asked]) == 0
    told = capsys.readouterr().out
    assert not target.exists()
    assert main(["export-tensors", str(recorded), "--to", str(target), *asked]) == 0
    assert capsys.readouterr().out == f"{told}{target}\n"
    size = int(told.removeprefix("about ").removesuffix(" bytes\n").replace(",", ""))
    assert size == pytest.approx(target.stat().st_size, rel=0.01)
    trace = json_io.load(recorded)
    assert differs(load_output(target), rerun_generate(trace, **EVERYTHING)) == []
    assert main(["export-tensors", str(recorded), "--to", str(target), "--logits"]) == 0
    few = load_output(target)
    assert (few.scores, few.hidden_states, few.attentions) == (None, None, None)
    assert len(few.logits) == 5


def test_the_command_line_refuses_in_one_line(recorded, tmp_path, capsys, monkeypatch):
    from engine.analysis import generate_outputs_sizes

    target = tmp_path / "out.safetensors"
    assert main(["export-tensors", str(recorded), "--to", str(target)]) == 2
    assert "at least one of" in clean(capsys.readouterr().err.strip())
    small = dataclasses.replace(SETTINGS, max_rich_bytes=10)
    monkeypatch.setattr(generate_outputs_sizes, "SETTINGS", small)
    assert main(["rich", str(recorded), "--to", str(target), "--scores"]) == 2
    assert "make a shorter run" in clean(capsys.readouterr().err.strip())
    assert main(["rich", "assets/gallery/dola-1.json.gz", "--scores"]) == 2
    assert "dola" in clean(capsys.readouterr().err.strip(), most=400)
    assert not target.exists()
