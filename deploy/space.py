"""Uploads the playground to a Hugging Face Space: ``python -m deploy.space --to owner/name``.

It shows what will change and asks first. The Space is created if it does not exist. A later upload
sends the files that changed, and removes those that the repository no longer has.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from glob import escape
from pathlib import Path

from deploy import space_files
from engine.cli.push import ask_confirmation, print_escaped
from engine.errors import EngineError, ParameterError
from engine.export.hub_upload import (
    PushError,
    check_target,
    hub_client,
    read_hub_token,
    translate_hub_errors,
)
from engine.temporary_folder import TemporaryFolder

DEFAULT_MODELS = "HuggingFaceTB/SmolLM2-135M-Instruct"
"""Models of the Hub that a new Space offers; its README has them preloaded."""
OWN_FILE = "playground/app.py"
"""A Space that has files, but not this one, belongs to another application."""
_HUBS_OWN = ("README.md", ".gitattributes")
_MAX_LISTED = 12
_VARIABLE = re.compile(r"[A-Za-z_]\w*=.*", re.ASCII | re.DOTALL)
_SENTENCES = {
    402: "The Hub asks for a paid plan before it runs {to}; choose another --hardware or a plan.",
    403: "The token in HF_TOKEN has no right to write to {to}; make one with that right.",
    409: "The name {to} is taken, or the Space has changed meanwhile; try again, or choose another name.",
    412: "{to} has changed since it was looked at; try again to see the new difference.",
}


@dataclass(frozen=True)
class SpaceState:
    """What the Hub has of a Space.

    Attributes:
        sha: its newest commit; None if there is no such Space.
        files: path -> git's blob hash, or the SHA-256 of a large file.
        variables: name -> value.
    """

    sha: str | None
    files: dict[str, str]
    variables: dict[str, str]


@dataclass(frozen=True)
class SpacePlan:
    """What an upload changes."""

    new: list[str]
    changed: list[str]
    removed: list[str]
    variables: dict[str, str]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to upload."""
        return not (self.new or self.changed or self.removed or self.variables)


def read_space(to: str, token: str) -> SpaceState:
    """Return what the Hub has of a Space.

    Raises:
        PushError: the token is wrong, the Hub cannot be reached, or the name belongs to another
            application.
    """
    from huggingface_hub.errors import RepositoryNotFoundError

    client = hub_client(token)
    with _translate_errors(to):
        try:
            found = client.space_info(to, files_metadata=True)
        except RepositoryNotFoundError:
            return SpaceState(None, {}, {})
        variables = {name: v.value for name, v in client.get_space_variables(to).items()}
    files = {s.rfilename: s.lfs.sha256 if s.lfs else s.blob_id for s in found.siblings or ()}
    if OWN_FILE not in files and not set(files).issubset(_HUBS_OWN):
        raise PushError("{to} is taken by another application; choose another name.", to=to)
    return SpaceState(found.sha, files, variables)


def plan_upload(
    state: SpaceState, files: dict[str, Path], commit: str, variables: dict[str, str]
) -> SpacePlan:
    """Compare what the Hub has with the files of a commit.

    Args:
        state: what the Hub has.
        files: path -> file.
        commit: becomes PLAYGROUND_COMMIT.
        variables: further variables of the Space. Those that it has already and that are not
            named here stay; a new Space also gets the default models.
    """
    both = sorted(set(files) & set(state.files))
    wanted = {"PLAYGROUND_COMMIT": commit, **variables}
    if state.sha is None:
        wanted.setdefault("PLAYGROUND_ALLOWED_MODELS", DEFAULT_MODELS)
    return SpacePlan(
        new=sorted(set(files) - set(state.files)),
        changed=[
            path for path in both if state.files[path] not in space_files.file_hashes(files[path])
        ],
        removed=sorted(set(state.files) - set(files) - set(_HUBS_OWN)),
        variables={k: v for k, v in wanted.items() if state.variables.get(k) != v},
    )


def send_plan(
    to: str, token: str, state: SpaceState, plan: SpacePlan, folder: Path, hardware: str | None
) -> str:
    """Create the Space if there is none, upload what changed, set variables; return its address."""
    client = hub_client(token)
    keep = {*plan.new, *plan.changed}
    with _translate_errors(to):
        if state.sha is None:
            variables = [{"key": key, "value": value} for key, value in plan.variables.items()]
            client.create_repo(
                to,
                repo_type="space",
                space_sdk="gradio",
                space_hardware=hardware,
                space_variables=variables,
            )
        if keep or plan.removed:
            client.upload_folder(
                repo_id=to,
                repo_type="space",
                folder_path=folder,
                allow_patterns=[escape(path) for path in keep],
                delete_patterns=[escape(path) for path in plan.removed] or None,
                parent_commit=state.sha,
                commit_message="Update the playground",
            )
        if state.sha is not None:
            for key, value in plan.variables.items():
                client.add_space_variable(to, key, value)
    return f"{client.endpoint}/spaces/{to}"


@contextmanager
def _translate_errors(to: str) -> Iterator[None]:
    """Turn errors of the Hub's client into a PushError; a missing Space is the caller's."""
    from huggingface_hub.errors import HfHubHTTPError

    with translate_hub_errors(to, "main"):
        try:
            yield
        except HfHubHTTPError as error:
            code = error.response.status_code if error.response is not None else 0
            if code in _SENTENCES:
                raise PushError(_SENTENCES[code], to=to) from None
            raise
        except RuntimeError as error:  # the client's own, around the error of one large file
            raise error.__cause__ or error from None


def _show(to: str, state: SpaceState, plan: SpacePlan, files: dict[str, Path]) -> None:
    """Print what the upload will change."""
    print_escaped(f"Space {to}" + ("" if state.sha else ", which will be created") + ":")
    for word, paths in (("New", plan.new), ("Changed", plan.changed), ("Removed", plan.removed)):
        if not paths:
            continue
        size = space_files.total_size(files[path] for path in paths if path in files)
        print_escaped(f"{word}: {len(paths)} files" + (f", {size:.2f} MB" if size else ""))
        for path in paths[:_MAX_LISTED] if state.sha else ():
            print_escaped(f"  {path}")
        if state.sha and len(paths) > _MAX_LISTED:
            print_escaped(f"  and {len(paths) - _MAX_LISTED} more")
    for key, value in plan.variables.items():
        print_escaped(f"Variable {key} = {value}")


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m deploy.space", description="Upload the playground to a Hugging Face Space."
    )
    parser.add_argument("--to", required=True, help="the Space, owner/name; created if missing")
    parser.add_argument("--commit", default="HEAD", help="what to upload; default: HEAD")
    parser.add_argument("--hardware", help="of a new Space, such as cpu-basic or zero-a10g")
    parser.add_argument(
        "--variable",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a variable of the Space, such as PLAYGROUND_ALLOWED_MODELS; may be repeated",
    )
    parser.add_argument("--yes", action="store_true", help="skip the confirmation")
    return parser.parse_args(argv)


def _read_variables(given: Sequence[str]) -> dict[str, str]:
    for text in given:
        if not _VARIABLE.fullmatch(text):
            raise ParameterError("--variable", text, "it must be NAME=VALUE")
    return dict(text.split("=", 1) for text in given)


def _run(arguments: argparse.Namespace) -> int:
    to = arguments.to
    check_target(to)
    variables = _read_variables(arguments.variable)
    token = read_hub_token()
    root = space_files.ROOT
    commit = space_files.find_commit(root, arguments.commit)
    if space_files.has_uncommitted_changes(root):
        print_escaped("Changes that are not committed are not uploaded.")
    state = read_space(to, token)
    address = f"{hub_client(token).endpoint}/spaces/{to}"
    with TemporaryFolder("space") as place:
        files = space_files.write_files(root, commit, Path(place), f"{address}/resolve/main/")
        plan = plan_upload(state, files, commit, variables)
        if plan.is_empty:
            print_escaped(f"{to} already has commit {commit[:12]}. There is nothing to upload.")
            return 0
        _show(to, state, plan, files)
        if not arguments.yes and not ask_confirmation(f"Upload it to {to}?"):
            print_escaped("Nothing was uploaded.")
            return 1
        print_escaped(
            f"Uploaded: {send_plan(to, token, state, plan, Path(place), arguments.hardware)}"
        )
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Upload and return the exit status: 2 with one sentence where it is impossible."""
    try:
        return _run(_parse(argv))
    except EngineError as error:
        sys.stderr.write(f"{error}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
