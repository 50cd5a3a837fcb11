"""Joins ES modules into one: a visitor fetches one file instead of a hundred.

No bundler is needed for modules that keep to a few forms, and the linter's formatter writes those in
one way each: named imports, named exports of declarations, named exports from another module.
Anything else is refused here, so it cannot slip into the page.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_FROM = re.compile(r'^(import|export) \{([^}]*)\} from "([^"]+)";$', re.MULTILINE)
_DECLARED = re.compile(r"^export (?=(?:async )?(?:const|function|class) (\w+))", re.MULTILINE)
_LEFT = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)
_RENAMED = re.compile(r"(\w+) as (\w+)")


class JoinError(Exception):
    """A module has a form that is not joined, or modules import each other."""


def join(modules: Mapping[str, str], entry: str) -> str:
    """Return one module with the exports of ``entry``; every part keeps its own scope.

    Args:
        modules: texts by path.
        entry: the path of the module that imports the others, however deep.

    Raises:
        JoinError: a sentence naming the module.
    """
    joined = _Joined(modules)
    name = joined.visit(entry, ())
    return "\n".join([*joined.parts, f"export const {{ {joined.exports[entry]} }} = {name};", ""])


def modules_in(*folders: Path) -> dict[str, str]:
    """Return the texts of all modules below some folders, by path from the project's root."""
    return {
        path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
        for folder in folders
        for path in sorted(folder.rglob("*.mjs"))
    }


class _Joined:
    def __init__(self, modules: Mapping[str, str]) -> None:
        self.modules = modules
        self.parts: list[str] = []
        self.names: dict[str, str] = {}
        self.exports: dict[str, str] = {}

    def visit(self, path: str, above: tuple[str, ...]) -> str:
        """Add a module behind those that it imports; return the name of what it exports."""
        if path in above:
            raise JoinError(f"{path} imports itself by way of others.")
        if path in self.names:
            return self.names[path]
        exported: list[str] = []

        def linked(match: re.Match[str]) -> str:
            kind, names, wanted = match.groups()
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), wanted))
            if target not in self.modules:
                raise JoinError(f"{path} imports {wanted}, which is not there.")
            if kind == "export":
                exported.extend(name.strip() for name in names.split(",") if name.strip())
            inner = _RENAMED.sub(r"\1: \2", names)
            return f"const {{{inner}}} = {self.visit(target, (*above, path))};"

        text = _FROM.sub(linked, self.modules[path])
        exported += _DECLARED.findall(text)
        text = _DECLARED.sub("", text)
        left = _LEFT.search(text)
        if left:
            raise JoinError(f"{path} has a form that is not joined: {left[0]}")
        self.names[path] = name = f"module{len(self.names)}"
        self.exports[path] = ", ".join(exported)
        scope = f"{text.rstrip()}\nreturn {{ {self.exports[path]} }};"
        self.parts.append(f"// {path}\nconst {name} = (() => {{\n{scope}\n}})();")
        return name
