"""Facts about this deployment: version, permissions, limits, model hashes, reliability results."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import subprocess
import time
import tomllib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.models.hashes import check_embedded_files, read_checksums
from engine.program import DISTRIBUTION, IS_PACKAGE
from engine.settings import SETTINGS, Settings, read_meanings
from engine.sources.catalogue import CATALOGUE, MODEL_DIR

ROOT = Path(__file__).resolve().parents[2]
RELIABILITY_FILE = ROOT / "assets" / "reliability.json"
_PACKAGES = ("gradio", "torch", "transformers", "accelerate", "huggingface_hub", "bitsandbytes")
_GIT_TIMEOUT_S = 5.0
UNKNOWN = "not known"


def collect_facts() -> dict[str, Any]:
    """Return all facts as JSON values; they contain no secrets and no paths of this machine."""
    return {
        "version": app_version(),
        "commit": commit_hash(),
        "packages": package_versions(),
        "public": SETTINGS.public,
        "allows": visitor_permissions(SETTINGS),
        "limits": list_limits(SETTINGS),
        "models": check_models(),
        "reliability": read_reliability(),
    }


@cache
def app_version() -> str:
    """Return the version in pyproject.toml, which an installed package has as metadata, or ``UNKNOWN``."""
    try:
        if IS_PACKAGE:
            return version(DISTRIBUTION)
        return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    except (OSError, ValueError, KeyError, PackageNotFoundError):
        return UNKNOWN


@cache
def commit_hash() -> str:
    """Return the commit that runs, from PLAYGROUND_COMMIT or git, or ``UNKNOWN``."""
    commit = os.environ.get("PLAYGROUND_COMMIT", "")
    if commit:
        return commit[:40]
    if IS_PACKAGE:  # git would name the commit of a repository that the package is installed in
        return UNKNOWN
    try:
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=_GIT_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return UNKNOWN
    return found.stdout.strip() or UNKNOWN


@cache
def package_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that tokens and figures depend on."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def visitor_permissions(settings: Settings) -> list[tuple[str, str]]:
    """Return what a visitor may do under ``settings``, as pairs of a subject and a sentence."""
    listed = settings.allowed_models.split()
    hub = "every model of the hub, and folders of this machine"
    if settings.public:
        hub = f"of the hub: {', '.join(listed)}" if listed else "none of the hub"
    offered = ", ".join(["The embedded ones", *installed_models()])
    here = f"its own process, {settings.max_check_s:g} s at most, without this server's secrets"
    methods = "and any whose code its user has seen and confirmed"
    if settings.public:
        methods = f"and of the hub: {', '.join(settings.allowed_methods.split()) or 'none'}"
    kept = rooms = "in memory alone"
    if settings.journal:
        kept, rooms = f"for {settings.journal_age_s / 60:g} minutes, in a database", "in a database"
    held = "Held in every way: float32, half precision, 8 and 4 bits, spread over devices and disk."
    if settings.public:
        offered = ", ".join(settings.public_weights.split()) or "nothing else"
        held = f"Held as this machine does by default; besides: {offered}."
    return [
        (
            "Models",
            f"{offered}, and {hub}. Safetensors alone; a model's own code never runs.",
        ),
        ("Weights", held),
        ("Pictures and sounds", _media_limits(settings)),
        (
            "Custom methods",
            f"Those that come along, {methods}; each in a process that is shut in.",
        ),
        (
            "The hub's token",
            "Never sent." if settings.public else "The owner's own, where one is set.",
        ),
        (
            "A visitor's code",
            "Never runs here. Verify runs code that this server wrote: " + here + ".",
        ),
        ("A link", "Runs by itself with embedded models alone; with any other it waits for Run."),
        (
            "Uploads",
            f"Trace files of up to {settings.max_trace_bytes / 1e6:g} MB, removed once they are read.",
        ),
        (
            "Rooms",
            f"Anybody may open one for a class and a lesson: {rooms}, without names, gone after "
            f"{settings.room_idle_s / 60:g} minutes that nobody uses it.",
        ),
        (
            "Prompts and runs",
            f"Kept for the page that comes back: {kept}. Never printed into the log.",
        ),
        (
            "Frames",
            "Pages of the hub may show this one."
            if settings.public
            else "No other page may show this one.",
        ),
    ]


def _media_limits(settings: Settings) -> str:
    """Return the sentence about a visitor's images and audio files."""
    picture, sound = (n / 1e6 for n in (settings.max_picture_bytes, settings.max_sound_bytes))
    kept = f"kept in memory alone, for {settings.media_age_s / 60:g} minutes after their last use"
    return f"Up to {picture:g} and {sound:g} MB, {kept}, and for nobody else."


def installed_models() -> list[str]:
    """Return the names of the models that ``python -m engine fetch`` installed on this machine."""
    return [entry.name for entry in CATALOGUE.values() if entry.brought and entry.available]


def list_limits(settings: Settings) -> list[dict[str, Any]]:
    """Return every numeric setting: ``name``, ``value``, ``default``, and its text, ``means``."""
    meaning = read_meanings()
    return [
        {
            "name": field.name,
            "value": getattr(settings, field.name),
            "default": field.default,
            "means": meaning[field.name],
        }
        for field in dataclasses.fields(settings)
        # Not isinstance: flags are bools, and bools are ints.
        if type(field.default) in (int, float)
    ]


@cache
def check_models() -> dict[str, Any]:
    """Hash the embedded models' files, once per process.

    Returns:
        ``checked``, the time of the check; ``state``, per model ``as shipped`` or what is wrong;
        and ``files``, the SHA-256 of each file by path.
    """
    state = {}
    for entry in CATALOGUE.values():
        if entry.embedded:
            try:
                # Raises a ModelError that names the first file that differs.
                check_embedded_files(entry.name)
                state[entry.name] = "as shipped"
            except ModelError as error:
                state[entry.name] = str(error)
    files = read_checksums(MODEL_DIR)
    return {"checked": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "state": state} | {
        "files": {path: files[path] for path in sorted(files)}
    }


def read_reliability() -> dict[str, Any] | None:
    """Return the results of the last reliability run, or None if the file is missing or broken."""
    try:
        found = json.loads(RELIABILITY_FILE.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    parts = found.get("parts") if isinstance(found, dict) else None
    whole = isinstance(parts, list) and all(
        isinstance(part, dict)
        and isinstance(part.get("figures"), dict)
        and isinstance(part.get("goals"), dict)
        for part in parts
    )
    return found if whole else None
