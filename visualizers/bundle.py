"""A minimal bundler: joins the page's ES modules into one, so that a visitor fetches one file.

It supports three forms, each as the formatter writes it: named imports, named exports of
declarations, and named re-exports. Any other form raises an error.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_FROM_CLAUSE = re.compile(r'^(import|export) \{([^}]*)\} from "([^"]+)";$', re.MULTILINE)
_EXPORTED_DECLARATION = re.compile(
    r"^export (?=(?:async )?(?:const|function|class) (\w+))", re.MULTILINE
)
_UNHANDLED_FORM = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)
_ALIAS = re.compile(r"(\w+) as (\w+)")


class BundleError(Exception):
    """A module has an unsupported form, imports a missing module, or is part of an import cycle."""


def bundle_modules(modules: Mapping[str, str], entry: str) -> str:
    """Return one module with the exports of ``entry``; every module keeps its own scope.

    Args:
        modules: path -> source text.
        entry: path of the module that imports the others, directly or indirectly.

    Raises:
        BundleError: a module cannot be joined; the message names it.
    """
    joined = _Bundler(modules)
    name = joined.add_module(entry, ())
    return "\n".join([*joined.parts, f"export const {{ {joined.exports[entry]} }} = {name};", ""])


def read_modules(*folders: Path) -> dict[str, str]:
    """Return path -> source of all ``.mjs`` files below the folders, relative to the root."""
    return {
        path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
        for folder in folders
        for path in sorted(folder.rglob("*.mjs"))
    }


class _Bundler:
    def __init__(self, modules: Mapping[str, str]) -> None:
        self.modules = modules
        self.parts: list[str] = []
        self.names: dict[str, str] = {}
        self.exports: dict[str, str] = {}

    def add_module(self, path: str, above: tuple[str, ...]) -> str:
        """Add a module after its imports; return the variable that holds its exports."""
        if path in above:
            raise BundleError(f"{path} imports itself by way of others.")
        if path in self.names:
            return self.names[path]
        exported: list[str] = []

        def linked(match: re.Match[str]) -> str:
            kind, names, wanted = match.groups()
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), wanted))
            if target not in self.modules:
                raise BundleError(f"{path} imports {wanted}, which is not there.")
            if kind == "export":
                exported.extend(name.strip() for name in names.split(",") if name.strip())
            inner = _ALIAS.sub(r"\1: \2", names)
            return f"const {{{inner}}} = {self.add_module(target, (*above, path))};"

        text = _FROM_CLAUSE.sub(linked, self.modules[path])
        exported += _EXPORTED_DECLARATION.findall(text)
        text = _EXPORTED_DECLARATION.sub("", text)
        left = _UNHANDLED_FORM.search(text)
        if left:
            raise BundleError(f"{path} has a form that is not joined: {left[0]}")
        self.names[path] = name = f"module{len(self.names)}"
        self.exports[path] = ", ".join(exported)
        scope = f"{text.rstrip()}\nreturn {{ {self.exports[path]} }};"
        # A function per module keeps its top-level names private.
        self.parts.append(f"// {path}\nconst {name} = (() => {{\n{scope}\n}})();")
        return name
