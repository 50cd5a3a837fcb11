"""Reads a custom generation method from a folder: source, arguments and requirements.

The folder has the layout that transformers reads for ``custom_generate``:
``custom_generate/generate.py`` with a function ``generate(model, ...)``,
``custom_generate/requirements.txt``, and a README with a table of arguments
(https://huggingface.co/docs/transformers/generation_strategies#custom-generation-methods). Nothing
is executed.
"""

from __future__ import annotations

import ast
import hashlib
import io
import os
import re
import tokenize
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from engine.errors import MethodError, format_value
from engine.messages import Message
from engine.python_source import parse_module
from engine.sandbox.arguments import Argument, parse_arguments
from engine.sandbox.requirements import describe_missing_packages

CODE = "custom_generate"
ENTRY = f"{CODE}/generate.py"
REQUIREMENTS = f"{CODE}/requirements.txt"
README = "README.md"
TAG = "custom_generate"
MAX_FILES = 64
MAX_BYTES = 1_000_000
"""Most bytes of all of a method's files together."""
_MAX_SUMMARY_CHARS = 200
_MAX_ENTRIES = 4 * MAX_FILES
"""Most files and folders scanned, ``__pycache__`` included."""
_ENCODINGS = ("utf-8", "utf-8-sig", "ascii", "us-ascii")


@dataclass(frozen=True)
class Method:
    """A method whose source was read and found valid."""

    name: str
    """Name of its folder."""
    files: dict[str, bytes]
    """Path inside the folder -> content, of every file that is run or read."""
    arguments: tuple[Argument, ...]
    """Its arguments beyond those of generate(), in signature order."""
    takes: frozenset[str]
    """Parameter names of its ``generate``."""
    takes_all: bool
    """Whether its signature has ``**kwargs``."""
    tagged: bool
    """Whether the README has the tag by which the hub lists such methods."""

    @property
    def sha256(self) -> str:
        """SHA-256 of every path and content under custom_generate; trust is bound to this hash."""
        digest = hashlib.sha256()
        for path in sorted(self.files):
            if path.startswith(f"{CODE}/"):
                content = self.files[path]
                digest.update(f"{path}\0{len(content)}\0".encode() + content)
        return digest.hexdigest()

    def source(self, path: str = ENTRY) -> str:
        """Return one of its files as text."""
        return self.files[path].decode("utf-8", "replace")


def read_method(folder: str | Path) -> Method:
    """Read and validate a method's folder; none of its code is executed.

    Raises:
        MethodError: the folder is missing, unreadable or invalid, or a requirement is missing; one
            sentence that names the file and, if possible, the line.
    """
    folder = Path(folder)
    try:
        files = read_files(folder)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise MethodError(
            "method = {folder} cannot be read: {why}.", folder=format_value(str(folder)), why=why
        ) from None
    trees = {
        path: _parse_source(path, text) for path, text in files.items() if path.endswith(".py")
    }
    function = _find_generate(trees)
    readme = files.get(README, b"").decode("utf-8", "replace")
    missing = describe_missing_packages(
        trees, files.get(REQUIREMENTS, b"").decode("utf-8", "replace")
    )
    if missing:
        raise MethodError(missing)
    named = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return Method(
        folder.resolve().name,
        files,
        parse_arguments(function, readme),
        frozenset(argument.arg for argument in named),
        function.args.kwarg is not None,
        _has_tag(readme),
    )


def read_files(folder: Path) -> dict[str, bytes]:
    """Return path -> content of a method's files, without validating the content.

    Raises:
        MethodError: there are no files, too many, unreadable ones, or links and other special
            files.
    """
    try:
        if not folder.is_dir():
            raise MethodError(
                "method = {name} is not allowed: there is no such folder.",
                name=format_value(str(folder)),
            )
        if not (folder / ENTRY).is_file():
            raise MethodError(format_no_method(folder.name))
        return _read_files(folder)
    except OSError as error:
        raise MethodError(
            "method = {folder} cannot be read: {why}.",
            folder=format_value(str(folder)),
            why=error.strerror,
        ) from None


def _read_files(folder: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    seen = size = 0
    # lexists also finds a broken link, which is refused below.
    waiting = [folder / CODE] + ([folder / README] if os.path.lexists(folder / README) else [])
    while waiting:
        path = waiting.pop()
        name = path.relative_to(folder).as_posix()
        if not (name.isascii() and name.isprintable()):
            raise MethodError(
                "{name} is not allowed: it must be a name of plain letters.",
                name=format_value(name),
            )
        # Before the others, which follow links.
        if path.is_symlink():
            raise MethodError("{name} is a link; a method must consist of plain files.", name=name)
        if path.is_dir():
            inside = list(islice(path.iterdir(), _MAX_ENTRIES - seen + 1))
            seen += len(inside)
            waiting += [entry for entry in inside if entry.name != "__pycache__"]
        elif path.is_file():
            # Reads at most one byte above the limit, however large the file is.
            with path.open("rb") as file:
                found[name] = file.read(MAX_BYTES - size + 1)
            size += len(found[name])
        else:
            raise MethodError(
                "{name} is no plain file; a method must consist of plain files.", name=name
            )
        if len(found) > MAX_FILES or size > MAX_BYTES or seen > _MAX_ENTRIES:
            raise MethodError(format_too_large(folder.name))
    return dict(sorted(found.items()))


def format_no_method(name: str) -> str:
    """Return the error message for a folder or repository without a method."""
    return Message(
        "{name} is no custom generation method: it has no {file}.", name=name, file=ENTRY
    )


def format_too_large(name: str) -> str:
    """Return the error message for a method above the size limits."""
    return Message(
        "{name} is too large: a method may have {most} files and {size} kB, its README included.",
        name=name,
        most=MAX_FILES,
        size=f"{MAX_BYTES // 1000:,}",
    )


def extract_summary(readme: str) -> str:
    """Return a README's first sentence, at most 200 characters; empty if it has none."""
    text = re.sub(r"\A---\n.*?\n---\n", "", readme, flags=re.DOTALL)
    said = (line.strip() for line in text.splitlines())
    # Skips headings, pictures, tables, quotations, tags and code.
    line = next((line for line in said if line[:1].isalnum()), "")
    sentence = re.split(r"(?<=[.!?])\s", line, maxsplit=1)[0]
    return (
        sentence
        if len(sentence) <= _MAX_SUMMARY_CHARS
        else f"{sentence[: _MAX_SUMMARY_CHARS - 1]}…"
    )


def _parse_source(path: str, text: bytes) -> ast.Module:
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(text).readline)
        tree = parse_module(text, path)
    except SyntaxError as error:
        if not error.lineno:
            raise MethodError("{path}: {why}.", path=path, why=error.msg) from None
        raise MethodError(
            "{path}, line {line}: {why}.", path=path, line=error.lineno, why=error.msg
        ) from None
    except (ValueError, RecursionError, MemoryError):
        raise MethodError("{path} is no Python source.", path=path) from None
    if encoding not in _ENCODINGS:
        raise MethodError(
            "{path} is written in {encoding}; it must be UTF-8, so that what is read is what runs.",
            path=path,
            encoding=encoding,
        )
    return tree


def _find_generate(trees: dict[str, ast.Module]) -> ast.FunctionDef:
    """Return ``generate`` of the entry file, or of the sibling file that it imports it from.

    Raises:
        MethodError: there is none, or it does not take the model by name, as transformers gives it.
    """
    found = _find_definition(trees[ENTRY]) or _find_imported(trees)
    if found is None:
        raise MethodError("{file} has no function generate(model, ...).", file=ENTRY)
    named = {argument.arg for argument in (*found.args.args, *found.args.kwonlyargs)}
    if "model" not in named and found.args.kwarg is None:
        raise MethodError(
            "{file}, line {lineno}: generate must take the model by that name, as in "
            "def generate(model, input_ids, **kwargs).",
            file=ENTRY,
            lineno=found.lineno,
        )
    return found


def _find_definition(tree: ast.Module) -> ast.FunctionDef | None:
    functions = (n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "generate")
    return next(iter(functions), None)


def _find_imported(trees: dict[str, ast.Module]) -> ast.FunctionDef | None:
    for node in trees[ENTRY].body:
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
            names = [alias.asname or alias.name for alias in node.names]
            beside = trees.get(f"{CODE}/{node.module.replace('.', '/')}.py")
            if "generate" in names and beside is not None:
                return _find_definition(beside)
    return None


def _has_tag(readme: str) -> bool:
    """Return whether the README's front matter has the tag."""
    if not readme.startswith("---"):
        return False
    front = readme[3:].partition("\n---")[0]
    lines = front.replace(",", "\n").splitlines()
    return any(line.strip().strip("-[], ") == TAG for line in lines)
