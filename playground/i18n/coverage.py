"""Lists what a language lacks: ``python -m playground.i18n.coverage [LANGUAGE …]``.

English texts are read off the code. A text without a translation is shown in English.
"""

from __future__ import annotations

import ast
import builtins
import errno
import inspect
import json
import json.decoder
import json.scanner
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from engine.messages import PLACEHOLDER
from playground.i18n import languages

ROOT = Path(__file__).parents[2]
_LESSONS = ROOT / "assets" / "lessons"
_SCRIPT_FOLDERS = ("playground/client", "visualizers")
_PYTHON_FOLDERS = ("engine", "playground", "visualizers", "assets/methods")
_TRANSLATED_CALL = re.compile(r'\btr\(\s*"((?:[^"\\]|\\.)*)"')
_MESSAGE_CALLS = {"Message", "add_sentence", "MeasurementStopped"}
_WORDS = re.compile(r"[A-Za-z]{2}.*[^\w{][A-Za-z]{2}", re.DOTALL)
NOT_ON_PAGE = {
    "engine/cli/": "a terminal shows them",
    "engine/analysis/gallery.py": "only the command line records the gallery",
    "engine/export/push.py": "only the command line uploads",
    "engine/export/push_method.py": "only the command line uploads",
    "engine/export/hub_upload.py": "only the command line uploads",
}
"""Modules, or folders of them, whose messages no visitor of the page meets, and why."""


@dataclass(frozen=True)
class Gap:
    """A text that a language lacks.

    Attributes:
        catalogue: the file it belongs to.
        text: the English text.
        place: where the code has it.
    """

    catalogue: str
    text: str
    place: str


def script_paths() -> Iterator[Path]:
    """Yield the page's scripts."""
    for folder in _SCRIPT_FOLDERS:
        yield from sorted((ROOT / folder).rglob("*.mjs"))


def script_texts() -> dict[str, str]:
    """Return the texts of the page's scripts -> where one is."""
    found = {}
    for path in script_paths():
        for call in _TRANSLATED_CALL.finditer(path.read_text("utf-8")):
            found.setdefault(json.loads(f'"{call[1]}"'), path.relative_to(ROOT).as_posix())
    return found


@cache
def _modules() -> Mapping[str, ast.Module]:
    paths = (path for folder in _PYTHON_FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))
    return {p.relative_to(ROOT).as_posix(): ast.parse(p.read_text("utf-8")) for p in paths}


def message_templates() -> dict[str, str]:
    """Return the templates of messages that the page can show -> where one is.

    Read are the arguments of messages and errors that are literals, or names of literals. A
    sentence without values that is stored or returned as a plain text is not found.
    """
    found = {}
    for path, module in _modules().items():
        if path.startswith(tuple(NOT_ON_PAGE)):
            continue
        named = _named_literals(module)
        for node in ast.walk(module):
            if isinstance(node, ast.Call):
                for argument in _message_arguments(node):
                    for text in _texts_of(argument, named):
                        if _WORDS.search(text):
                            found.setdefault(text, f"{path}:{node.lineno}")
    return found


def _message_arguments(call: ast.Call) -> Iterator[ast.expr]:
    """Yield the arguments of a call that a person reads."""
    name = getattr(call.func, "attr", "") or getattr(call.func, "id", "")
    if name == "ParameterError":
        # The name of the parameter and the value come first.
        yield from call.args[2:]
        yield from (one.value for one in call.keywords if one.arg in ("allowed", "hint"))
    elif name in _MESSAGE_CALLS or (name.endswith("Error") and not hasattr(builtins, name)):
        yield from call.args[:1]


def _named_literals(module: ast.Module) -> dict[str, list[ast.expr]]:
    """Return name -> what is assigned to it anywhere in a module."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(node.value)
    return found


def _texts_of(node: ast.expr, named: Mapping[str, list[ast.expr]]) -> Iterator[str]:
    """Yield the literal texts that an expression can be."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=one, orelse=other):
            yield from _texts_of(one, named)
            yield from _texts_of(other, named)
        case ast.Name(id=name):
            # One step only: a name can be assigned to itself, as in `x = x if y else "none"`.
            for value in named.get(name, ()):
                yield from _texts_of(value, {})
        case ast.Subscript(value=ast.Name(id=name)):
            for table in named.get(name, ()):
                if isinstance(table, ast.Dict):
                    for text in table.values:
                        yield from _texts_of(text, {})
        case _:
            return


def _is_in_code(text: str) -> bool:
    """Return whether some code can show a text: ours, a method's README, Python or the system."""
    if text in _string_literals():
        return True
    # A text without values may also be a part of HTML.
    return not PLACEHOLDER.search(text) and text in _joined_texts()


@cache
def _string_literals() -> frozenset[str]:
    return frozenset(text for module in _modules().values() for text in _literals_of(module))


def _literals_of(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@cache
def _joined_texts() -> str:
    readmes = (path.read_text("utf-8") for path in (ROOT / "assets/methods").rglob("*.md"))
    sources = (inspect.getsource(module) for module in (json.decoder, json.scanner))
    json_errors = (text for source in sources for text in _literals_of(ast.parse(source)))
    system_errors = map(os.strerror, errno.errorcode)
    texts = (*_string_literals(), *readmes, *json_errors, *system_errors)
    return "\0".join(" ".join(text.split()) for text in texts)


def find_gaps(language: str) -> list[Gap]:
    """Return every text of the scripts, every message and every lesson that a language lacks."""
    catalogues = (
        (f"assets/text/{language}/page.json", script_texts(), languages.client_catalogue(language)),
        (
            f"assets/text/{language}/messages.json",
            message_templates(),
            languages.server_catalogue(language),
        ),
    )
    gaps = [
        Gap(name, text, place)
        for name, wanted, known in catalogues
        for text, place in wanted.items()
        if text not in known
    ]
    lessons = (path for path in _LESSONS.glob("*.md") if "." not in path.stem)
    return gaps + [
        Gap(f"assets/lessons/{path.stem}.{language}.md", "the lesson", path.name)
        for path in sorted(lessons)
        if not path.with_suffix(f".{language}.md").exists()
    ]


def find_unused(language: str) -> list[Gap]:
    """Return every translation whose English text is no longer in the code."""
    scripts = script_texts()
    unused = [
        (f"assets/text/{language}/page.json", text)
        for text in languages.client_catalogue(language)
        if text not in scripts
    ]
    unused += [
        (f"assets/text/{language}/messages.json", text)
        for text in languages.server_catalogue(language)
        if not _is_in_code(text)
    ]
    return [Gap(catalogue, text, "") for catalogue, text in unused]


def main(asked: Iterable[str]) -> int:
    """Print what each language lacks, and what it has too much; return 1 if there is anything."""
    lines = []
    for language in tuple(asked) or languages.other_languages():
        lines += [
            f"{gap.catalogue} lacks {gap.text!r} ({gap.place})" for gap in find_gaps(language)
        ]
        lines += [f"{gap.catalogue}: {gap.text!r} is not used" for gap in find_unused(language)]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
