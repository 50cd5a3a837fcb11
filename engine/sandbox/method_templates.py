"""Creates a method's folder from a template that runs unchanged."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from engine.errors import MethodError, format_value
from engine.sandbox.folder import ENTRY, README
from engine.sandbox.method_store import methods_folder
from engine.sandbox.requirements import REQUIREMENTS_FILE

SHIPPED_FOLDER = Path(__file__).resolve().parents[2] / "assets" / "methods"
"""Folder of the shipped methods, each of which can be read, run and copied."""
TEMPLATES_FOLDER = SHIPPED_FOLDER / "templates"
TRY_FILE = "try.py"
_REQUIREMENTS = """\
# The packages that the method imports, one a line, as pip reads them. transformers and the
# playground install none of them; they name what is missing.
torch
transformers
"""
_NAME_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}", re.ASCII)
_TRY_SOURCE = '''"""Runs this method with transformers alone: python {file} MODEL "prompt"."""

import sys
from pathlib import Path

from transformers import AutoModelForCausalLM, AutoTokenizer

name, prompt = sys.argv[1:3]
model, tokenizer = AutoModelForCausalLM.from_pretrained(name), AutoTokenizer.from_pretrained(name)
inputs = tokenizer(prompt, return_tensors="pt")
ids = model.generate(
    **inputs,
    max_new_tokens=40,
    custom_generate=str(Path(__file__).parent),
    trust_remote_code=True,  # it is your own code
)
print(tokenizer.decode(ids[0], skip_special_tokens=True))
'''


def list_templates() -> dict[str, Path]:
    """Return name -> folder of the templates, then of the shipped methods."""
    found = [*sorted(TEMPLATES_FOLDER.iterdir()), *sorted(SHIPPED_FOLDER.iterdir())]
    return {path.name: path for path in found if (path / ENTRY).is_file()}


def own_methods_folder() -> Path:
    """Return the folder of the methods created on the page, one subfolder each."""
    return methods_folder() / "own"


def list_own_methods() -> dict[str, Path]:
    """Return name -> folder of the methods created on the page."""
    try:
        found = sorted(own_methods_folder().iterdir())
    except OSError:  # no method has been created yet
        return {}
    known = list_templates()
    return {
        path.name: path
        for path in found
        if path.name not in known
        and _NAME_PATTERN.fullmatch(path.name)
        and (path / ENTRY).is_file()
    }


def create_method(folder: str | Path, template: str) -> Path:
    """Create a method's folder from a template and return it.

    Args:
        folder: must not exist; its name is the method's. In ``own_methods_folder()`` it must not be a
            shipped method's name.
        template: one of ``list_templates()``.

    Raises:
        MethodError: the name or template is not allowed, or the folder exists.
    """
    folder = Path(folder)
    known = list_templates()
    if template not in known:
        raise MethodError(
            "template = {template} is not allowed: it must be one of {known}.",
            template=format_value(template),
            known=", ".join(known),
        )
    if not _NAME_PATTERN.fullmatch(folder.name):
        raise MethodError(
            "name = {name} is not allowed: it must be 1 to 63 letters, digits, _ and -, "
            "a letter first.",
            name=format_value(folder.name),
        )
    if folder.parent == own_methods_folder() and folder.name in known:
        raise MethodError(
            "name = {name} is not allowed: a built-in method has this name.",
            name=format_value(folder.name),
        )
    if folder.exists():
        raise MethodError("{folder} is there already; nothing was written.", folder=folder)
    try:
        shutil.copytree(known[template], folder, ignore=shutil.ignore_patterns("__pycache__"))
        readme = folder / README
        text = readme.read_text("utf-8").replace(f"# {template}\n", f"# {folder.name}\n", 1)
        readme.write_text(text.replace(f'/{template}"', f'/{folder.name}"'), "utf-8")
        requirements = folder / REQUIREMENTS_FILE
        if not requirements.exists():
            requirements.write_text(_REQUIREMENTS, "utf-8")
        (folder / TRY_FILE).write_text(_TRY_SOURCE.format(file=TRY_FILE), "utf-8")
    except OSError as error:
        raise MethodError(
            "{folder} could not be written: {error}.", folder=folder, error=error.strerror
        ) from None
    return folder
