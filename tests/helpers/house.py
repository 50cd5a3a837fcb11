"""Measures how readable the code and the documents are: ``python -m tests.helpers.house``.

It prints lines per folder, names that are participles or single words, the share of comments, the sentences of
the documents, and how far one filter and one model name reach through the code.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import threading
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[2]
PRODUCT = ("engine", "visualizers", "playground", "app.py")
LANGUAGES = (".py", ".mjs", ".css")
PARTICIPLE = re.compile(
    r"^_?(?:[a-z]+(?:ed|ing)|told|held|kept|made|known|shown|seen|given|taken|lent|left|found)(?:_|$)"
)
MUTABLE = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
SENTENCE = re.compile(r"(?<=[.!?:])\s+(?=[A-Z0-9`*“])")
WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*")
NOT_PROSE = re.compile(
    r"^(```.*?^```|    .*?$|\|.*?$|---.*?^---|#.*?$|<!--.*?-->)", re.MULTILINE | re.DOTALL
)
PARAGRAPH = re.compile(r"\n\n|\n\s*(?:[-*]|\d+\.) ")


def tracked(*parts: str) -> list[Path]:
    """Return the files that git tracks below some folders."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", *parts], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def python_files(*parts: str) -> list[Path]:
    """Return the tracked Python files below some folders."""
    return [path for path in tracked(*parts) if path.suffix == ".py"]


def lines_per_folder() -> Counter[tuple[str, str]]:
    """Return (folder, suffix) -> lines, for the product and its tests."""
    lines: Counter[tuple[str, str]] = Counter()
    for path in tracked(*PRODUCT, "tests", "benchmarks", "training", "deploy"):
        if path.suffix in LANGUAGES and "vendor" not in path.parts:
            parts = path.relative_to(ROOT).parts[:-1]
            lines["/".join(parts[:2]) or ".", path.suffix] += len(path.read_text().splitlines())
    return lines


def functions(paths: Iterable[Path]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield every function and method of some files."""
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield node


def name_shares(paths: Iterable[Path]) -> tuple[float, float]:
    """Return which shares of the function names begin with a participle, and are one word."""
    names = [node.name for node in functions(paths) if not node.name.startswith("__")]
    participles = sum(bool(PARTICIPLE.match(name)) for name in names)
    words = sum("_" not in name.strip("_") for name in names)
    return participles / len(names), words / len(names)


def comment_share(paths: Iterable[Path]) -> float:
    """Return the comment lines divided by the lines of code, without docstrings and empty lines."""
    comments = code = 0
    for path in paths:
        text = path.read_text()
        docs = sum(docstring_lines(ast.parse(text)))
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
        alone = {token.start[0] for token in tokens if token.type == tokenize.COMMENT}
        comments += len(alone)
        code += sum(bool(line.strip()) for line in text.splitlines()) - docs - len(alone)
    return comments / code


def docstring_lines(tree: ast.Module) -> Iterator[int]:
    """Yield the length of every string that is a statement by itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield (node.end_lineno or node.lineno) - node.lineno + 1


def any_share(paths: Iterable[Path]) -> float:
    """Return which share of the annotated parameters contains ``Any``."""
    found = total = 0
    for node in functions(paths):
        arguments = node.args
        for each in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
            if each.annotation is not None:
                total += 1
                found += bool(re.search(r"\bAny\b", ast.unparse(each.annotation)))
    return found / total


def late_imports(paths: Iterable[Path]) -> int:
    """Return how many imports are inside functions."""
    return sum(
        isinstance(inner, (ast.Import, ast.ImportFrom))
        for node in functions(paths)
        for inner in ast.walk(node)
    )


def mutables(paths: Iterable[Path]) -> int:
    """Return how many module-level names in small letters are lists, dictionaries or sets."""
    count = 0
    for path in paths:
        for node in ast.parse(path.read_text()).body:
            targets = getattr(node, "targets", [getattr(node, "target", None)])
            if isinstance(getattr(node, "value", None), MUTABLE):
                count += any(isinstance(t, ast.Name) and not t.id.isupper() for t in targets)
    return count


def count_places(word: str) -> tuple[int, int]:
    """Return on how many lines of how many code files of the product a word appears."""
    hits = [
        sum(bool(re.search(rf"\b{word}\b", line)) for line in path.read_text().splitlines())
        for path in tracked(*PRODUCT)
        if path.suffix in (".py", ".mjs")
    ]
    return sum(hits), sum(bool(n) for n in hits)


def prose(path: Path) -> list[int]:
    """Return the number of words in each sentence of a document, without code, tables and headings."""
    paragraphs = PARAGRAPH.split(NOT_PROSE.sub("\n\n", path.read_text()))
    sentences = [s for each in paragraphs for s in SENTENCE.split(" ".join(each.split()))]
    return [n for n in (len(WORD.findall(sentence)) for sentence in sentences) if n]


def long_lines(path: Path) -> int:
    """Return how many lines of a document have more than 120 characters."""
    return sum(len(line) > 120 for line in path.read_text().splitlines())


class NamePath:
    """Records which functions get a model's name, and which get its Source, while it is loaded."""

    def __init__(self, name: str) -> None:
        """Watch for one name."""
        self.name = name
        self.stops = Counter[tuple[str, str]]()
        self.source_stops = Counter[tuple[str, str]]()
        self.lines = set[tuple[str, int]]()

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Count a call that gets the name; the signature is that of ``sys.setprofile``."""
        del argument
        module = str(frame.f_globals.get("__name__"))
        if event == "call" and module.split(".", maxsplit=1)[0] in PRODUCT:
            code = frame.f_code
            given = [frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount]]
            if any(isinstance(each, str) and each == self.name for each in given):
                self.stops[module, code.co_name] += 1
                self.lines.add((code.co_filename, code.co_firstlineno))
            elif any(type(each).__module__ == "engine.sources.source" for each in given):
                self.source_stops[module, code.co_name] += 1

    def count_returns(self) -> int:
        """Return how many return statements the functions that get the name have."""
        found = 0
        for file in {file for file, _ in self.lines if Path(file).is_file()}:
            for node in functions([Path(file)]):
                first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                if (file, first) in self.lines:
                    found += sum(isinstance(each, ast.Return) for each in ast.walk(node))
        return found


def follow_model_name(name: str) -> NamePath:
    """Return where a model's name passes from a request to the loaded model."""
    # Slow to import, and only this figure needs it.
    from engine import DecodeRequest, decode

    path = NamePath(name)
    request = DecodeRequest("greedy", model=name, prompt="Once", params={"max_new_tokens": 1})
    threading.setprofile(path)
    sys.setprofile(path)
    try:
        for _ in decode(request):
            pass
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # pyright: ignore[reportArgumentType]
    return path


def print_table(title: str, rows: Iterable[tuple[Any, ...]]) -> None:
    """Print one table in Markdown."""
    print(f"\n| {title} |\n|{'---|' * (title.count('|') + 1)}")
    for row in rows:
        print("| " + " | ".join(str(each) for each in row) + " |")


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.helpers.house", description=__doc__)
    parser.add_argument(
        "--model", help="also follow this model's name from a request to the loaded model"
    )
    model = parser.parse_args().model
    lines = lines_per_folder()
    folders = sorted({folder for folder, _ in lines})
    print_table(
        "folder | Python | JavaScript | CSS",
        [(folder, *(lines[folder, suffix] for suffix in LANGUAGES)) for folder in folders],
    )
    parts = ("engine", "playground", "visualizers", "tests")
    rows = [(part, *name_shares(python_files(part))) for part in parts]
    print_table(
        "names of functions in | begin with a participle | one word",
        [(part, f"{first:.1%}", f"{second:.1%}") for part, first, second in rows],
    )
    engine, product = python_files("engine"), python_files(*PRODUCT)
    print_table(
        "figure | value",
        [
            ("comments per line of code, engine", f"{comment_share(engine):.1%}"),
            ("parameters with Any, engine", f"{any_share(engine):.1%}"),
            ("imports inside functions", late_imports(product)),
            ("mutable module-level names", mutables(product)),
            ("lines and files with min_p", count_places("min_p")),
            ("lines and files with top_n_sigma", count_places("top_n_sigma")),
        ],
    )
    documents = tracked("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs")
    counts = [(path, prose(path)) for path in documents if path.suffix == ".md"]
    print_table(
        "document | words | words per sentence | sentences over 30 words | lines over 120 characters",
        [
            (
                path.relative_to(ROOT), sum(n), f"{sum(n) / max(len(n), 1):.1f}",
                sum(each > 30 for each in n), long_lines(path),
            )
            for path, n in counts
        ],
    )  # fmt: skip
    if model:
        path = follow_model_name(model)
        modules = Counter(module for module, _ in path.stops.elements())
        print_table(f"module that {model} passes | calls", modules.most_common())
        calls, stops = path.stops.total(), len(path.stops)
        print(f"\n{stops} functions in {len(modules)} modules get the name, in {calls} calls;")
        print(f"they have {path.count_returns()} return statements.")
        modules = Counter(module for module, _ in path.source_stops)
        stops = len(path.source_stops)
        print(f"{stops} functions in {len(modules)} modules get its Source and not the name.")


if __name__ == "__main__":
    main()
