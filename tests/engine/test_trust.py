"""Code runs where it came along, where the owner lists it, or where its very bytes were confirmed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from engine.errors import MethodError
from engine.sandbox.method_lookup import find_method
from engine.sandbox.method_store import CONFIRMED, read_records
from engine.sandbox.method_templates import list_templates
from engine.sandbox.trust import check_trusted, is_trusted, trust_code
from tests.helpers.hub import SHA, asked
from tests.helpers.methods import PLAIN, set_for_methods, write_method
from tests.helpers.sentences import clean

NAME = "someone/mine"


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    """Keep what is confirmed in a folder of the test; return it."""
    set_for_methods(monkeypatch, tmp_path / "kept")
    return tmp_path / "kept"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Serve a method; nothing else can be reached."""
    write_method(tmp_path / "hub" / NAME, PLAIN)
    with asked(tmp_path / "hub", monkeypatch) as served:
        yield served


def refusal(found):
    with pytest.raises(MethodError) as raised:
        check_trusted(found)
    return clean(str(raised.value), most=400)


def test_a_shipped_method_runs_without_asking(kept):
    for name in list_templates():
        check_trusted(find_method(name))
    assert not kept.exists()


def test_code_is_confirmed_once_and_again_when_a_byte_has_changed(tmp_path):
    folder = write_method(tmp_path / "a method", PLAIN, rule="LIMIT = 3\n")
    found = find_method(str(folder))
    assert not is_trusted(found)
    said = refusal(found)
    assert found.method.sha256 in said
    assert f"python -m engine method trust '{folder}'" in said
    trust_code(found.method.sha256)
    check_trusted(find_method(str(folder)))
    (folder / "custom_generate" / "rule.py").write_text("LIMIT = 4\n")
    changed = find_method(str(folder))
    assert not is_trusted(changed)
    # What is said of it is no code.
    (folder / "custom_generate" / "rule.py").write_text("LIMIT = 3\n")
    (folder / "README.md").write_text("# Something else\n")
    check_trusted(find_method(str(folder)))


def test_code_of_the_hub_is_confirmed_as_any_other(hub, tmp_path):
    found = find_method(NAME)
    assert NAME in refusal(found)
    trust_code(found.method.sha256)
    check_trusted(find_method(NAME))
    # The same bytes elsewhere are the same code.
    check_trusted(find_method(str(hub.folder / NAME)))


def test_what_cannot_be_read_asks_again(kept, tmp_path):
    found = find_method(str(write_method(tmp_path / "mine", PLAIN)))
    sha256 = found.method.sha256
    trust_code(sha256)
    for content in (b"", b"{", b"[]", b"\xff", b"[" * 90_000, json.dumps({sha256: True}).encode()):
        (kept / CONFIRMED).write_bytes(content)
        assert not is_trusted(found)
        trust_code(sha256)
        assert is_trusted(found)
    (kept / CONFIRMED).unlink()
    (kept / CONFIRMED).mkdir()
    assert not is_trusted(found)
    with pytest.raises(MethodError, match=r"cannot be written .* PLAYGROUND_METHODS names another"):
        trust_code(sha256)


@pytest.mark.parametrize("sha256", ["", "0" * 63, "g" * 64, "0" * 64 + "\n", None, 5])
def test_a_hash_that_is_none_is_named(sha256):
    with pytest.raises(MethodError, match=r"sha256 = .* it must be 64 digits"):
        trust_code(sha256)


def test_processes_that_confirm_at_once_lose_nothing(kept):
    code = (
        "import sys; from engine.sandbox.trust import trust_code\n"
        "for n in range(15): trust_code(f'{int(sys.argv[1]) * 100 + n:064x}')"
    )
    environ = {"PLAYGROUND_METHODS": str(kept), "PYTHONPATH": ":".join(filter(None, sys.path))}
    both = [subprocess.Popen([sys.executable, "-c", code, str(n)], env=environ) for n in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    assert set(read_records(CONFIRMED)) == {
        f"{p * 100 + n:064x}" for p in range(2) for n in range(15)
    }
    assert {path.name for path in kept.iterdir()} == {CONFIRMED, f".{CONFIRMED}.lock"}


def test_the_public_runs_what_its_owner_lists_by_commit_and_hash(hub, kept, monkeypatch):
    found = find_method(NAME)
    sha256 = found.method.sha256
    trust_code(sha256)

    def listed(entry):
        set_for_methods(monkeypatch, kept, public=True, allowed_methods=entry)

    listed(f"{NAME}@{SHA}#{sha256}")
    check_trusted(find_method(NAME))
    check_trusted(find_method("mirostat"))
    listed(f"{NAME}@{SHA}#{'0' * 64}")
    assert sha256 in refusal(find_method(NAME)), "what its owner confirmed elsewhere counts nothing"
    with pytest.raises(MethodError, match="its owner lists them"):
        trust_code(sha256)
    listed(f"{NAME}@{'f' * 40}#{sha256}")
    assert not is_trusted(found)
    listed(f"{NAME}@{SHA}#{sha256}")
    place = next(kept.glob("hub/*/*/*/custom_generate/generate.py"))
    place.write_text(f"{PLAIN}\n# changed\n")
    assert not is_trusted(find_method(NAME))


def test_what_the_owner_of_a_machine_lists_is_confirmed(hub, kept, monkeypatch):
    found = find_method(NAME)
    entry = f"{NAME}@{SHA}#{found.method.sha256.upper()}"
    set_for_methods(monkeypatch, kept, allowed_methods=entry)
    check_trusted(find_method(NAME))
