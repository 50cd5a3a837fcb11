"""Load the tokenizer of a model's folder, if there is one."""

from __future__ import annotations

import json
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.messages import Message
from engine.model_code import is_failure
from engine.models.files import odd_field_error, read_json_object
from engine.temporary_folder import TemporaryFolder

_OBJECTS = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
"""Files of one JSON object each."""
_MAX_FIELDS_TRIED = 32
"""Each try reads a tokenizer, while other models wait to be loaded."""
_FILES = ("tokenizer*", "vocab*", "merges*", "spiece*", "*.model", "*.tiktoken", "special_tokens*")


def load_tokenizer(folder: str) -> Any:
    """Return a folder's tokenizer; None if it has no tokenizer files, so the model works with ids only.

    Raises:
        ModelError: transformers cannot read its files; the sentence names the one that spoils it.
    """
    names = [path.name for path in Path(folder).iterdir()]
    if not any(fnmatch(name, pattern) for name in names for pattern in _FILES):
        return None
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    except BaseException as error:  # a damaged file may raise anything, also a panic of Rust code
        if not is_failure(error):
            raise
        damaged = _find_damaged_file(folder)
        odd = None if damaged else _find_odd_field(folder, error)
        raise odd or ModelError(
            "The model's {file} cannot be read ({kind}).",
            file=damaged or Message("tokenizer"),
            kind=type(error).__name__,
        ) from error
    _check_length(tokenizer)
    return tokenizer


def _check_length(tokenizer: Any) -> None:
    """Check that the tokenizer can compare a text with its longest: transformers reads any value."""
    longest = tokenizer.model_max_length
    if not isinstance(longest, int | float):
        raise odd_field_error(
            "tokenizer_config.json", "model_max_length", longest, TypeError("no number")
        )


def _find_damaged_file(folder: str) -> str | None:
    """Return the tokenizer's file that is damaged, None if it is not clear which."""
    from tokenizers import Tokenizer

    def read_text(path: str) -> str:
        return Path(path).read_text(encoding="utf-8")

    def read_object(path: str) -> None:
        # As a text: transformers does not read a byte order mark.
        json.loads(read_text(path)).items()

    for name, read in (
        ("tokenizer.json", Tokenizer.from_file),
        *((n, read_object) for n in _OBJECTS),
        ("chat_template.jinja", read_text),
    ):
        path = Path(folder) / name
        try:
            if path.is_file():
                read(str(path))
        except BaseException:  # as above
            return name
    return None


def _find_odd_field(folder: str, error: BaseException) -> ModelError | None:
    """Return the error that names the field without which the tokenizer can be read, if there is one."""
    from transformers import AutoTokenizer

    found = {name: read_json_object(Path(folder) / name) for name in _OBJECTS}
    fields = [
        (file, field)
        for file, values in found.items()
        for field, value in values.items()
        if not (value is None or isinstance(value, bool))
    ]
    with TemporaryFolder("tokenizer") as place:
        for path in Path(folder).iterdir():
            if path.is_file():
                (Path(place) / path.name).symlink_to(path.resolve())
        for file, field in fields[:_MAX_FIELDS_TRIED]:
            changed = Path(place) / file
            changed.unlink()
            changed.write_text(json.dumps({n: v for n, v in found[file].items() if n != field}))
            try:
                AutoTokenizer.from_pretrained(place, local_files_only=True, trust_remote_code=False)
                return odd_field_error(file, field, found[file][field], error)
            except BaseException as other:  # as above
                if not is_failure(other):
                    raise
            changed.unlink()
            changed.symlink_to((Path(folder) / file).resolve())
    return None
