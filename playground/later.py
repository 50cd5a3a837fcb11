"""torch and transformers are imported behind the page, which needs neither to be declared, sent or looked at.

Importing both takes longer than all else together. A name of theirs that a module binds while they are put off is
bound to a stand-in, which brings them as soon as something of them is wanted.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

PUT_OFF = (
    "torch",
    "transformers",
    "accelerate",
    "engine.watermark.processors",
    "engine.models.slots",
    "engine.models.graphed",
    "engine.models.openvino.model",
    "sqlalchemy",
    "playground.kept.tables",
)
"""What waits; our own among it makes classes of the packages' classes when it is imported."""
_OWN = ("engine", "playground")
_SETTLED = threading.Event()
_SETTLED.set()


class _StandIn(ModuleType):
    """Stands for a module until something of it is wanted."""

    __path__: Any = ()

    def __getattr__(self, name: str) -> Any:
        # Whoever looks through all modules, as inspect does, asks for such names and means none of them.
        if name.startswith("__") and name != "__version__":
            raise AttributeError(name)
        bring()
        return getattr(sys.modules[self.__name__], name)


class _Finder(MetaPathFinder, Loader):
    """Answers the import of what is put off with its stand-in."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if fullname in PUT_OFF:
            return ModuleSpec(fullname, self)
        if fullname.partition(".")[0] not in PUT_OFF:
            return None
        # A part of a package is wanted, so the package is; the import would load the part twice.
        bring()
        part = importlib.import_module(fullname)
        del sys.modules[fullname]
        return ModuleSpec(fullname, _Given(part))

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        del module


class _Given(Loader):
    """Answers an import with a module that has been loaded already."""

    def __init__(self, module: ModuleType) -> None:
        self.module, self.spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        del spec
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec


_FINDER = _Finder()


def put_off() -> None:
    """Answer imports with stand-ins until ``allow``; nothing where one of the packages is there already."""
    if not any(name in sys.modules for name in PUT_OFF):
        _SETTLED.clear()
        sys.meta_path.insert(0, _FINDER)


def allow() -> None:
    """Let every import be one from now on; to be called before a second thread imports anything."""
    if _FINDER in sys.meta_path:
        sys.meta_path.remove(_FINDER)
        for name in PUT_OFF:
            sys.modules.pop(name, None)


def bring() -> None:
    """Import what was put off, or wait until who imports it already is done.

    Raises:
        ImportError: a package is missing or broken.
    """
    allow()
    # All of it, whatever is wanted: who went on in the middle could meet a module that is half there.
    for name in PUT_OFF:
        importlib.import_module(name)


def settle() -> None:
    """Put what was brought in the place of its stand-ins, and say that all is there."""
    for full, module in list(sys.modules.items()):
        if full.partition(".")[0] in _OWN:
            for name, value in list(vars(module).items()):
                if isinstance(value, _StandIn):
                    setattr(module, name, sys.modules[value.__name__])
    _SETTLED.set()


def is_settled() -> bool:
    """Return whether nothing is put off any more."""
    return _SETTLED.is_set()
