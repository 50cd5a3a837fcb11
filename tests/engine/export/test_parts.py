"""The parts of an export: hostile text stays text, pins hold, verdicts and files are right."""

from __future__ import annotations

import ast
import csv
import dataclasses
import fcntl
import hashlib
import io
import json
import os
import sys
import time
import types
import zipfile

import pytest

from engine import DecodeRequest
from engine.cli.main import main
from engine.errors import ExportError, ParameterError
from engine.export import verify as checks
from engine.export.files import all_files, export_files, zip_files
from engine.export.folder import folder_files, folder_sha256
from engine.export.plan import plan_export
from engine.export.script import code_sections, script_text
from engine.export.short_script import short_code
from engine.export.steps_csv import COLUMNS, steps_csv
from engine.run.generation import generation_config
from engine.strategies import STRATEGIES
from engine.strategies.bundled_loops import find_bundled_loop
from engine.trace import json_io
from engine.trace.records import ModelInfo, Output
from tests.helpers.models import golden_model, native
from tests.helpers.runs import finished
from tests.helpers.strategies import PROMPT, make

HARD = "Quotes \" ' \"\"\" ''' \\ \n {x} %s <b> \u2028 \x00 é\ud7ff"


@pytest.fixture(scope="module")
def trace():
    """A run whose model says it is the embedded one, so that it can be loaded by name."""
    request = DecodeRequest(
        "sampling", golden_model("llama"), input_ids=[5, 9], params={"max_new_tokens": 5}, seed=2
    )
    return finished(request)


def renamed(trace, **changes):
    return dataclasses.replace(trace, model=ModelInfo("storyteller", vocab_size=97), **changes)


def moved(trace, strategy="contrastive_search"):
    """The same header under a strategy whose loop comes along."""
    config = dataclasses.asdict(STRATEGIES[strategy].config())
    return renamed(trace, strategy=strategy, config=json.loads(json.dumps(config)))


def constants(code):
    """Return the literal assignments at the top of a script."""
    found = {}
    for node in ast.parse(code).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                found[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                continue
    return found


def test_hostile_text_stays_text(trace):
    hostile = renamed(
        trace,
        prompt=HARD,
        versions={"torch": '"""\nimport os\n', "transformers": HARD},
        config={**trace.config, "stop_strings": [HARD], "max_new_tokens": 5},
    )
    plan = plan_export(hostile)
    code = script_text(plan)
    named = constants(code)
    assert named["PROMPT"] == HARD
    assert named["SEED"] == 2
    assert named["PROMPT_IDS"] == [5, 9]
    imports = [n for n in ast.walk(ast.parse(code)) if isinstance(n, ast.Import)]
    assert {alias.name for n in imports for alias in n.names} == {"torch"}
    assert repr(HARD) in code
    json.loads(export_files(hostile)["run.ipynb"])


@pytest.mark.parametrize("identifier", ["x'); import os #", "../evil", "a/b/c", "in-memory", ""])
def test_models_without_a_place_are_refused(trace, identifier):
    with pytest.raises(ExportError, match="no place to load"):
        plan_export(dataclasses.replace(trace, model=ModelInfo(identifier)))
    with pytest.raises(ExportError, match="dtype"):
        plan_export(dataclasses.replace(trace, model=ModelInfo("a/b", dtype="os")))
    config = {**trace.config, "prefix_allowed_tokens_fn": "<callable f>"}
    with pytest.raises(ExportError, match="Python object"):
        plan_export(renamed(trace, config=config))


def test_the_notebook_holds_the_code_of_the_script(trace):
    for run in (renamed(trace), moved(trace)):
        files, plan = export_files(run), plan_export(run)
        book = json.loads(files["run.ipynb"])
        assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
        code = ["".join(c["source"]) for c in book["cells"] if c["cell_type"] == "code"]
        exact = [text for _, text in code_sections(plan)]
        # What began with ids has no pipeline.
        assert code == [short_code(plan), *exact]
        assert all(text in files["run.py"] for text in exact)
        # The short run comes first and is open, everything else is folded.
        assert files["run.py"].index("def in_short") < files["run.py"].index(exact[0][:20])
        cells_of_code = [c for c in book["cells"] if c["cell_type"] == "code"]
        folded = [c["metadata"].get("jupyter", {}).get("source_hidden") for c in cells_of_code]
        assert folded == [None, *[True] * len(exact)]
        assert len({c["id"] for c in book["cells"]}) == len(book["cells"])
        ast.parse("\n".join(code))


def test_the_folder_is_whole_pinned_and_needs_transformers_alone(trace):
    files = folder_files(plan_export(moved(trace)))
    names = {p.removeprefix("custom_generate/").removesuffix(".py") for p in files}
    for path, text in files.items():
        if not path.endswith(".py"):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.level:
                assert (node.module or node.names[0].name) in names
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                roots = [getattr(node, "module", None)] + [a.name for a in node.names]
                assert not {"engine", "gradio", "playground"} & {
                    r.split(".")[0] for r in roots if r
                }
    assert files["custom_generate/requirements.txt"].startswith("transformers==")
    total = hashlib.sha256(files["custom_generate/generate.py"].encode()).hexdigest()
    assert total in files["README.md"]
    changed = {**files, "custom_generate/generate.py": files["custom_generate/generate.py"] + "#"}
    assert folder_sha256(changed) != folder_sha256(files)
    assert folder_sha256(files) in script_text(plan_export(moved(trace)))


def test_the_folder_imports_nothing_for_type_checkers(trace):
    # transformers looks for every package that a file names, in `if TYPE_CHECKING:` too.
    for path, text in folder_files(plan_export(moved(trace))).items():
        if path.endswith(".py"):
            imports = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ImportFrom)]
            packages = {(n.module or "").split(".")[0] for n in imports if not n.level}
            assert packages <= {*sys.stdlib_module_names, "torch", "transformers", "numpy"}, path


def generate_alone_gives(name):
    """Whether transformers' generate() makes the tokens of a strategy's runs by itself."""
    strategy, target = STRATEGIES[name], golden_model("llama")
    config = strategy.config(max_new_tokens=10)
    asked = generation_config(config, strategy.generate_kwargs(config), target)
    return all(
        native(target, PROMPT, seed, generation_config=asked)
        == [list(output.token_ids) for output in finished(make(name, seed)).outputs]
        for seed in range(4)
    )


def test_only_runs_that_need_a_loop_bring_one():
    assert generate_alone_gives("greedy")
    assert generate_alone_gives("sampling")
    assert find_bundled_loop(STRATEGIES["sampling"], STRATEGIES["sampling"].config()) is None
    for name, strategy in STRATEGIES.items():
        own = find_bundled_loop(strategy, strategy.config())
        if strategy.moved_to:
            assert own.loop is strategy.loop
        elif own is not None and name != "mtp":  # generate() writes its text, but without the heads
            assert not generate_alone_gives(name), name


def test_copying_near_the_last_position_brings_the_loop(trace):
    """The storyteller has 1024 positions; generate() copies ten tokens wherever it is."""
    config = dataclasses.asdict(STRATEGIES["prompt_lookup"].config())

    def loop_of(length, new):
        near = config | {"max_new_tokens": new}
        return plan_export(
            renamed(trace, strategy="prompt_lookup", config=near, prompt_ids=(5,) * length)
        ).own

    assert loop_of(952, 64) is None
    assert "positions" in loop_of(953, 64).why
    assert "positions" in loop_of(960, 64).why


def test_archives_are_the_same_every_time(trace):
    files = export_files(moved(trace))
    assert zip_files(files) == zip_files(dict(files))
    with zipfile.ZipFile(io.BytesIO(zip_files(files))) as packed:
        assert packed.namelist() == list(files)
        assert all(not n.startswith("/") and ".." not in n for n in packed.namelist())


def test_the_table_of_steps(trace):
    first = trace.prompt_ids[0]
    pieces = {**trace.pieces, trace.steps[0].emit[0]: '=cmd("x"),\n'}
    rows = list(csv.reader(io.StringIO(steps_csv(dataclasses.replace(trace, pieces=pieces)))))
    assert tuple(rows[0]) == COLUMNS
    assert len(rows) == len(trace.steps) + 1
    assert rows[1][4].startswith("'=cmd")
    step = trace.steps[1]
    own = next(c for c in step.candidates if c.token_id == step.emit[0])
    assert float(rows[2][5]) == own.raw_logprob
    assert first in trace.pieces


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n", "\x0b", "\x0c", "\x85", "\u2028"])
def test_no_character_of_a_token_begins_another_cell(trace, end):
    """Readers differ in what ends a row; between quotes nothing does."""
    token = trace.steps[0].emit[0]
    pieces = {**trace.pieces, token: f'a{end}=1+1,"b'}
    table = steps_csv(dataclasses.replace(trace, pieces=pieces))
    assert f',"a{end}=1+1,""b",' in table
    rows = list(csv.reader(io.StringIO(table, newline="")))
    assert len(rows) == len(trace.steps) + 1
    assert {len(row) for row in rows} == {len(COLUMNS)}


def test_verdicts_name_the_first_difference(trace):
    run = dataclasses.replace(trace, outputs=(Output((1, 2, 3), "", "length"),))
    said = [
        ([[1, 2, 3]], True, "All 3 tokens are equal."),
        ([[1, 5, 3]], False, "They differ from token 2 on: the run has id 2, the code id 5."),
        ([[1, 2]], False, "They differ from token 3 on: the run has id 3, the code the end."),
        ([[1, 2, 3, 4]], False, "They differ from token 4 on: the run has the end, the code id 4."),
        ([], False, "The code printed 0 sequences, the run has 1."),
    ]
    for printed, equal, message in said:
        verdict = checks.compare_tokens(run, printed, 1.0)
        assert (verdict.equal, verdict.message) == (equal, message)
    two = dataclasses.replace(run, outputs=run.outputs * 2)
    assert "All 6 tokens in 2 sequences" in checks.compare_tokens(two, [[1, 2, 3]] * 2, 1.0).message
    assert "Sequence 2 differs" in checks.compare_tokens(two, [[1, 2, 3], [9]], 1.0).message
    assert checks.parse_printed_ids("x\ntoken_ids [1, 2]\ntext\ntoken_ids []\n") == [[1, 2], []]


def test_runs_that_did_not_end_are_not_checked(trace):
    for reason in ("cancelled", "error"):
        run = dataclasses.replace(trace, outputs=(Output((1,), "", reason),))
        with pytest.raises(ExportError, match="stopped before its end"):
            checks.verify_export(run)
    with pytest.raises(ExportError, match="no output"):
        checks.verify_export(dataclasses.replace(trace, outputs=()))


ENDLESS = """
import fcntl, pathlib, signal
lock = open({lock!r}, "w")
fcntl.flock(lock, fcntl.LOCK_EX)
pathlib.Path({begun!r}).touch()
signal.pause()
"""


@pytest.mark.parametrize("how", ["cancelled", "limit"])
def test_a_check_that_is_stopped_leaves_no_process(trace, monkeypatch, tmp_path, how):
    """The code ends only by being killed, and holds a lock as long as it lives."""
    lock, begun = tmp_path / "lock", tmp_path / "begun"
    code = ENDLESS.format(lock=str(lock), begun=str(begun))
    monkeypatch.setattr(checks, "export_files", lambda trace: {"run.py": code})
    if how == "limit":
        now = lambda: 10 * checks.SETTINGS.max_check_s * begun.exists()  # noqa: E731
        clock = types.SimpleNamespace(monotonic=now, perf_counter=now, sleep=time.sleep)
        monkeypatch.setattr(checks, "time", clock)
    says = {
        "cancelled": "stopped before the code had ended",
        "limit": "not ended after 600 seconds",
    }
    with pytest.raises(ExportError, match=says[how]):
        checks.verify_export(
            renamed(trace), cancelled=lambda: how == "cancelled" and begun.exists()
        )
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_the_code_knows_no_secret_and_lets_others_go_first(trace, monkeypatch):
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD"):
        monkeypatch.setenv(name, "told-nobody")
    # Nicer than the process that checks, also where that one is nice already.
    niceness = min(19, os.nice(0) + 10)
    # The process may begin before its priority is set.
    code = (
        f"import os, time\nwhile os.nice(0) < {niceness}: time.sleep(0.01)\n"
        "raise SystemExit(f\"{'told-nobody' in str(os.environ)} {os.nice(0)}\")"
    )
    monkeypatch.setattr(checks, "export_files", lambda trace: {"run.py": code})
    verdict = checks.verify_export(renamed(trace))
    assert verdict.message == f"The code stopped with an error: False {niceness}"


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_new_tokens", 10**9), ("num_beams", 10**5), ("num_return_sequences", 10**5)],
)
def test_nothing_is_run_that_would_not_be_decoded_here(trace, monkeypatch, name, value):
    monkeypatch.setattr(checks, "export_files", lambda trace: pytest.fail("code was written"))
    run = moved(trace, "beam_search")
    run = dataclasses.replace(run, outputs=trace.outputs, config={**run.config, name: value})
    with pytest.raises(ParameterError, match=f"{name} = {value}"):
        checks.verify_export(run)
    many = dataclasses.replace(renamed(trace), prompt_ids=(5,) * 100_000)
    with pytest.raises(ParameterError, match="input_ids"):
        checks.verify_export(many)


def test_an_error_in_the_code_is_reported(trace, monkeypatch):
    monkeypatch.setattr(checks, "export_files", lambda trace: {"run.py": "raise SystemExit('no')"})
    verdict = checks.verify_export(renamed(trace))
    assert (verdict.equal, verdict.message) == (False, "The code stopped with an error: no")


def test_the_commands(trace, tmp_path, capsys):
    path = tmp_path / "run.json.gz"
    json_io.save(moved(trace), path)
    for form, target in (("code", "code"), ("csv", "a/steps.csv"), ("zip", "all.zip")):
        assert main(["export", str(path), "--as", form, "--to", str(tmp_path / target)]) == 0
    assert (tmp_path / "code" / "contrastive_search_loop" / "README.md").is_file()
    assert (tmp_path / "a" / "steps.csv").read_text() == steps_csv(moved(trace))
    with zipfile.ZipFile(tmp_path / "all.zip") as packed:
        inside = {name: packed.read(name).decode() for name in packed.namelist()}
    saved = json_io.load(path)
    assert inside == all_files(saved)
    assert {"run.py", "run.ipynb", "generation_config.json"} < set(inside)
    assert inside["contrastive_search-seed2.csv"] == steps_csv(moved(trace))
    assert json_io.loads(inside["contrastive_search-seed2.json"]) == saved
    target = tmp_path / "generation_config.json"
    assert main(["export", str(path), "--as", "config", "--to", str(target)]) == 0
    assert json.loads(target.read_text())["penalty_alpha"] == 0.6
    capsys.readouterr()
    assert main(["export", str(path), "--to", "/proc/nowhere"]) == 2
    assert "could not be written" in capsys.readouterr().err
    assert not list(tmp_path.rglob("*.part"))


def test_a_config_that_does_not_fit_is_refused(trace):
    with pytest.raises(ExportError, match="top_k"):
        plan_export(renamed(trace, config={**trace.config, "top_k": -1}))
