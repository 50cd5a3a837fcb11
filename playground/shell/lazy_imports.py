"""Lazy imports: torch and transformers load in the background, after the page is being served.

Their import takes longer than the rest of the start, and the page needs neither. Until then
``import torch`` binds a stand-in module, which loads them on the first attribute access.
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

LAZY_MODULES = (
    "torch",
    "transformers",
    "accelerate",
    "engine.watermark.processors",
    "engine.models.slots",
    "engine.models.cuda_graphs",
    "engine.models.openvino.model",
    "engine.run.checked_cache",
    "sqlalchemy",
    "playground.storage.tables",
)
"""Deferred modules. The project's own ones use these packages when they are imported."""
_SHARED_MODULES = (
    "transformers.generation.utils",
    "transformers.modeling_utils",
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.tokenization_auto",
)
"""Parts of transformers that every model needs. They import each other in circles: two threads that
import them at the same time see half-initialised modules, as Python breaks the deadlock that way."""
_OWN_PACKAGES = ("engine", "playground")
# Not importlib.util.LazyLoader: its lock and the import lock can wait for each other.
_LOADED = threading.Event()
_LOADED.set()
_FINISHED = threading.Event()
_FINISHED.set()


class _LazyModule(ModuleType):
    """A stand-in for a deferred module; its first attribute access loads all of them."""

    __path__: Any = ()

    def __getattr__(self, name: str) -> Any:
        # ``inspect`` probes dunder names of every module; that must not load torch.
        if name.startswith("__") and name != "__version__":
            raise AttributeError(name)
        load()
        return getattr(sys.modules[self.__name__], name)


class _Finder(MetaPathFinder, Loader):
    """Import hook that returns stand-ins for deferred modules."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if fullname in LAZY_MODULES:
            return ModuleSpec(fullname, self)
        if fullname.partition(".")[0] not in LAZY_MODULES:
            return None
        # Importing a submodule needs its package. Without this spec the import system would run the
        # submodule twice.
        load()
        part = importlib.import_module(fullname)
        del sys.modules[fullname]
        return ModuleSpec(fullname, _LoadedModuleLoader(part))

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _LazyModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        del module


class _LoadedModuleLoader(Loader):
    """Loader that returns a module that is already loaded."""

    def __init__(self, module: ModuleType) -> None:
        self.module, self.spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        del spec
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has set the spec of this hook.
        module.__spec__ = self.spec


_FINDER = _Finder()


def install() -> None:
    """Defer imports until ``uninstall``; does nothing if one of the modules is already loaded."""
    if not any(name in sys.modules for name in LAZY_MODULES):
        _LOADED.clear()
        _FINISHED.clear()
        sys.meta_path.insert(0, _FINDER)


def uninstall() -> None:
    """Make imports real again; call this before a second thread imports anything."""
    if _FINDER in sys.meta_path:
        sys.meta_path.remove(_FINDER)
        for name in LAZY_MODULES:
            # The next import must find the module, not its stand-in.
            sys.modules.pop(name, None)


def load() -> None:
    """Import all deferred modules, or wait for the thread that is importing them.

    Raises:
        ImportError: a package is missing or broken.
    """
    uninstall()
    # Always all of them: a thread that continued in the middle could see half-initialised modules.
    for name in LAZY_MODULES:
        importlib.import_module(name)


def load_all() -> None:
    """Import everything that handlers share, then let the handlers begin.

    Raises:
        ImportError: a package is missing or broken; handlers begin, and say so.
    """
    try:
        load()
        for name in _SHARED_MODULES:
            importlib.import_module(name)
    finally:
        _LOADED.set()


def wait_until_loaded() -> None:
    """Wait for ``load_all``. Call this before work that imports, and never during an import."""
    _LOADED.wait()


def finish() -> None:
    """Replace the stand-ins in the project's modules, and mark the deferred imports as finished."""
    # Copies, because imports in other threads change these dicts.
    for full, module in list(sys.modules.items()):
        if full.partition(".")[0] in _OWN_PACKAGES:
            for name, value in list(vars(module).items()):
                if isinstance(value, _LazyModule):
                    setattr(module, name, sys.modules[value.__name__])
    _FINISHED.set()


def is_finished() -> bool:
    """Return whether no import is deferred."""
    return _FINISHED.is_set()
