"""Installs a model of the catalogue for the page, as ``python -m engine fetch`` does."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.models.install import install_model
from engine.models.shared_work import ByteProgress, SharedWork
from engine.settings import SETTINGS
from engine.sources.installable import INSTALLABLE
from playground.forms.spec import page_spec
from playground.i18n import languages
from playground.i18n.translate_spec import translate_spec
from playground.jobs.registry import JOBS, JobKind

ACTIONS = ("install_model", "install_progress")
_INSTALL = JobKind("install_model", stopped="The download was stopped; nothing of it stays.")
# Two visitors who want one model wait for one download, which ends once nobody waits for it.
_INSTALLS = SharedWork()
_PROGRESS: dict[str, dict[str, Any]] = {}


def act(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Install a model, or return how far its installation is.

    Args:
        payload: ``action``, the model's ``name`` and, to install it, the id ``press`` and the page's
            ``language``.

    Returns:
        After an installation, the parts of the declaration that changed: ``models``, ``drafts`` and
        ``installable``. As progress, ``stage``, ``done`` and ``total`` in bytes; empty before the
        first stage.

    Raises:
        ModelError: this deployment is public, or the model cannot be fetched.
        StoppedError: the visitor stopped it, or left.
    """
    name = str(payload.get("name"))[:64]
    if SETTINGS.public:
        raise ModelError("Models are not installed from a public page; its owner lists them.")
    if payload.get("action") == "install_progress":
        return dict(_PROGRESS.get(name, {}))
    with JOBS.run(_INSTALL, payload.get("press")) as job:
        _INSTALLS.run(name, partial(_install, name), job.cancelled)
    spec = page_spec()
    changed = {part: spec[part] for part in ("models", "drafts", "installable")}
    language = payload.get("language")
    known = language in languages.other_languages()
    return dict(translate_spec(changed, language)) if known else changed


def install_allowed_models() -> None:
    """On a public deployment, install the models whose hub ids its owner allows.

    A Space has their files in the hub's cache before it starts. Its presets, lessons and menu then
    know them by their names in the catalogue.
    """
    if not SETTINGS.public:
        return
    allowed = SETTINGS.allowed_models.split()
    for name, source in INSTALLABLE.items():
        if source.hub in allowed:
            install_model(name, lambda *_: None)


def _install(name: str, report: ByteProgress) -> Path:
    def tell(stage: str, done: int, total: int) -> None:
        _PROGRESS[name] = {"stage": stage, "done": done, "total": total}
        report(done, total)

    try:
        return install_model(name, tell)
    finally:
        _PROGRESS.pop(name, None)
