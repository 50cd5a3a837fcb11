"""The pages that follow from the code are current, and the glossary leaves out no name of a trace."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import shutil
from pathlib import Path

import pytest

from engine.cli import docs, settings_page
from engine.cli.main import main
from engine.cli.paper_page import ARXIV_ID, SOURCE_FOLDERS, SOURCE_SUFFIXES
from engine.declare.params import defaults_of, params_of
from engine.errors import EngineError
from engine.sandbox.sandbox_parent import _PASSED_VARIABLES
from engine.settings import OTHER_VARIABLES, Settings
from engine.statistics import metrics
from engine.strategies import STRATEGIES
from engine.trace import details, events, records
from tests.helpers.environment import PRODUCT, find_reads
from tests.helpers.strategies import trace_of
from visualizers import COMMON_VISUALS, VISUALS

ROOT = Path(__file__).parents[1]
PAGES = docs.generate_pages()
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
ENTRIES = docs.split_glossary(GLOSSARY)[1]
EXPLAINED = {name for entry in ENTRIES for name in re.findall(r"`(\w+)`", entry)}
# Names of a trace that need no entry, and why.
PLAIN = {
    "what it says": "id name index start end reason token_id token_ids",
    "the request's own fields": "strategy config prompt prompt_ids speech",
    "facts of the machine and its models": "revision dtype device host vocab_size is_encoder_decoder "
    "versions eos_token_ids",
    "durations, their unit in their name": "timing total_s first_token_s load_s queue_s check_s",
    "sentences and figures for a reader": "notes metrics new_tokens tokens_per_s",
    "where a branch began": "parent run_id earlier",
    "pairs of token id and probability": "top",
    "a filter's own number, which the entry of the filter explains": "state",
}
NEEDS_NONE = {name for names in PLAIN.values() for name in names.split()}

READ_BY_PACKAGES = {"HF_ENDPOINT", "HF_HOME", "HF_HUB_CACHE"}
UNCLEAR_READS = ["engine/sandbox/sandbox_parent.py"] * 2 + ["engine/settings.py"] * 2


def names_of(module):
    kinds = [kind for _, kind in inspect.getmembers(module, dataclasses.is_dataclass)]
    own = [kind for kind in kinds if kind.__module__ == module.__name__]
    assert own
    return {field.name for kind in own for field in dataclasses.fields(kind)}


def test_a_generated_page_is_current():
    assert PAGES
    stale = [path for path, text in PAGES.items() if (ROOT / path).read_text() != text]
    assert not stale, f"run python -m engine docs: {', '.join(stale)}"


def test_no_line_of_a_page_is_longer_than_120_characters():
    """Rows of tables and code cannot be wrapped."""
    long = []
    for path in (*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "decisions").glob("*.md")):
        prose = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
        lines = [line for line in prose.splitlines() if len(line) > 120]
        long += [f"{path.name}: {line}" for line in lines if not line.startswith("|")]
    assert not long, "\n".join(long)


def test_a_decision_is_told_in_150_words():
    head = re.compile(r"^#.*$|^Date:.*$", re.MULTILINE)
    decisions = [
        path for path in (ROOT / "docs" / "decisions").glob("*.md") if path.name != "index.md"
    ]
    assert decisions
    lengths = {path.name: len(head.sub("", path.read_text()).split()) for path in decisions}
    assert not {name: words for name, words in lengths.items() if words > 150}


def test_the_page_of_strategies_holds_every_parameter_and_preset():
    page = " ".join(PAGES["docs/strategies.md"].split())
    for name, strategy in STRATEGIES.items():
        part = page.split(f'<a id="{name}"></a>')[1].split("<a id=")[0]
        assert strategy.summary in part
        assert strategy.paper in part
        for preset in strategy.presets:
            assert f"| {preset.name} | " in part
            assert preset.shows in part
        for parameter, kind in params_of(strategy.config).items():
            default = defaults_of(strategy.config)[parameter]
            shown = "off" if default is None else json.dumps(default)
            assert f"| `{parameter}` | " in part + page.split("## Shared parameters")[1]
            assert len(shown) > 50 or f"| `{shown}` | " in page
            assert kind.help.replace("|", "\\|") in page


@pytest.mark.parametrize(
    ("strategy", "said"),
    [
        ("greedy", "Exported code contains only this call."),
        ("dola", "always includes `dola_loop` of engine/loops/dola.py: transformers moved it"),
        ("beam_search", "if you use `force_words_ids`: transformers moved it"),
        ("speculative", "if you use `stop_strings`: transformers runs past a stop string"),
        (
            "prompt_lookup",
            "`top_n_sigma` or `top_h` together with `do_sample=True`: transformers asks",
        ),
        ("universal_assisted", "if you use `do_sample`: sampling across tokenizers"),
    ],
)
def test_the_page_says_when_a_loop_is_bundled(strategy, said):
    page = " ".join(PAGES["docs/strategies.md"].split())
    assert said in page.split(f'<a id="{strategy}"></a>')[1].split("<a id=")[0]


def test_the_page_of_settings_holds_every_variable_that_the_product_reads():
    page = PAGES["docs/settings.md"]
    entries = re.findall(r"^- \*\*(\w+)\*\* \(", page, re.M)
    fields = {settings_page.variable_name(field.name) for field in dataclasses.fields(Settings)}
    read, named, unclear = set(), set(), []
    for path in PRODUCT:
        text = path.read_text()
        named |= set(re.findall(r"\bPLAYGROUND_[A-Z_]*[A-Z]\b", text))
        if path.suffix == ".py":
            names, others = find_reads(text)
            read |= names
            unclear += [f"{path.relative_to(ROOT).as_posix()}: {line}" for line in others]
    # The whole environment, for settings and child processes, and a list of names to pass on.
    assert [line.split(":")[0] for line in unclear] == UNCLEAR_READS
    read |= {"SPACE_ID", *_PASSED_VARIABLES, *READ_BY_PACKAGES}
    assert not sorted((fields | read | named) - set(entries))
    assert sorted(entries) == sorted(fields | {one.name for one in OTHER_VARIABLES})
    assert not sorted({one.name for one in OTHER_VARIABLES} - read)


@pytest.mark.parametrize(
    ("code", "names", "unclear"),
    [
        ("os.environ.get('A'); os.environ['B']; os.getenv('C', '')", {"A", "B", "C"}, 0),
        ("from os import environ; environ.setdefault('A', '1'); 'B' in environ", {"A", "B"}, 0),
        ("environ = {}; environ['A']; environ.get('B')", set(), 0),
        ("os.environ['A'] = '1'; os.environ |= {}; del os.environ['B']", set(), 0),
        ("os.environ.get(name); os.getenv(name); os.environ[name]; dict(os.environ)", set(), 4),
    ],
)
def test_a_read_of_the_environment_is_found(code, names, unclear):
    found, others = find_reads(code)
    assert found == names
    assert len(others) == unclear


def test_a_setting_without_a_topic_or_a_meaning_is_refused(monkeypatch):
    monkeypatch.setattr(settings_page, "OTHER_VARIABLES", OTHER_VARIABLES[1:])
    with pytest.raises(EngineError, match=r"one topic for each variable: PLAYGROUND_HOST$"):
        settings_page.settings_page(ROOT)
    monkeypatch.setattr(settings_page, "read_meanings", dict)
    with pytest.raises(EngineError, match="a docstring below each field: max_prompt_chars, "):
        settings_page.settings_page(ROOT)


def test_every_paper_that_the_code_names_is_in_the_index():
    named = set()
    for folder in SOURCE_FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in SOURCE_SUFFIXES:
                named |= {
                    (i, path.relative_to(ROOT).as_posix())
                    for i in ARXIV_ID.findall(path.read_text())
                }
    rows = dict(
        re.findall(
            r"^\| \[([\d.]+)\]\(https://arxiv.org/abs/\1\) (.*)\|$", PAGES["docs/papers.md"], re.M
        )
    )
    assert len(named) > 20
    assert {paper for paper, _ in named} == set(rows)
    assert not [(paper, path) for paper, path in named if path not in rows[paper]]
    for strategy in STRATEGIES.values():
        for paper in ARXIV_ID.findall(strategy.paper):
            assert f"`{strategy.name}`" in rows[paper]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("(Su et al. 2022, arXiv 2202.06417)", ["2202.06417"]),
        ("1211.3711 and 0704.0001.", ["1211.3711", "0704.0001"]),
        ("-1259.1392167224028, 2213.10226, 12.2301.10226", []),
    ],
)
def test_numbers_that_are_no_papers_are_left_out(text, found):
    assert ARXIV_ID.findall(text) == found


def test_every_field_of_a_trace_is_explained():
    missing = [
        f"{module.__name__}: {name}"
        for module in (records, details, events)
        for name in sorted(names_of(module) - EXPLAINED - NEEDS_NONE)
    ]
    assert not missing, "\n".join(missing)


def test_every_picture_metric_and_kind_is_explained():
    words = {*details.FATES, *details.STATUSES, *records.FINISH_REASONS}
    named = {visual for strategy in STRATEGIES.values() for visual in strategy.visuals}
    assert not {*COMMON_VISUALS, *named, *details.DETAIL_TYPES, *words} - EXPLAINED
    assert not set(metrics.compute_metrics(trace_of("greedy"))) - EXPLAINED - NEEDS_NONE
    assert {f"`{name}`" for name in STRATEGIES} <= {
        found
        for entry in ENTRIES
        if docs.STRATEGY_MARK in entry
        for found in re.findall(r"`\w+`", entry)
    }


def test_nothing_is_explained_that_is_not_there():
    named = names_of(records) | names_of(details) | names_of(events) | set(VISUALS)
    assert not NEEDS_NONE & EXPLAINED
    sources = "".join(
        p.read_text() for f in ("engine", "visualizers") for p in (ROOT / f).rglob("*.py")
    )
    assert len(named & EXPLAINED) > 60
    assert not [name for name in EXPLAINED if not re.search(rf"\b{name}\b", sources)]


def test_an_entry_is_one_or_two_sentences_under_its_own_name():
    terms = [re.match(r"\*\*(.+?)\*\*", entry).group(1).casefold() for entry in ENTRIES]
    assert terms == sorted(set(terms))
    for entry in ENTRIES:
        if docs.STRATEGY_MARK not in entry:
            said = entry.split(" — ", 1)[1]
            assert said.endswith(".")
            assert len(re.findall(r"[.:;](?:\s|$)", said)) <= 5, entry


def test_the_command_says_what_is_out_of_date_and_writes_it(tmp_path, monkeypatch, capsys):
    for folder in SOURCE_FOLDERS:
        (tmp_path / folder).symlink_to(ROOT / folder)
    place = tmp_path / "docs"
    shutil.copytree(ROOT / "docs", place)
    monkeypatch.setattr(docs, "ROOT", tmp_path)
    assert main(["docs", "--check"]) == 0
    assert "Every page is up to date." in capsys.readouterr().out
    before = (place / "glossary.md").read_text()
    head, (first, *others) = docs.split_glossary(before)
    (place / "glossary.md").write_text("\n\n".join([head, *others, first]))
    (place / "papers.md").unlink()
    assert main(["docs", "--check"]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said == ["docs/glossary.md is out of date", "docs/papers.md is out of date"]
    assert not (place / "papers.md").exists()
    assert main(["docs"]) == 0
    assert (place / "glossary.md").read_text() == before
    assert (place / "papers.md").read_text() == PAGES["docs/papers.md"]


@pytest.mark.parametrize("text", ["", "# Words\n\nNone yet.\n", "**a** — A.\n\nno term — B.\n"])
def test_a_glossary_that_cannot_be_read_is_refused(text, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(docs, "ROOT", tmp_path)
    assert main(["docs"]) == 2
    assert "run this in a whole checkout" in capsys.readouterr().err
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "glossary.md").write_text(text)
    with pytest.raises(EngineError, match=r"begins (\*\*term\*\*|with no bold term)"):
        docs.glossary_page(tmp_path)


def test_every_difference_from_generate_is_shown_by_a_test():
    page = (ROOT / "docs" / "differences.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 8
    for row in rows:
        proofs = re.findall(r"`(test_\w+\.py)::(test_\w+)`", row)
        assert proofs, row
        for file, name in proofs:
            [path] = (ROOT / "tests" / "engine").rglob(file)
            assert f"def {name}(" in path.read_text(), f"{file}::{name}"
