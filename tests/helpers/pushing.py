"""What tests upload to: a repository of a local hub, and a token that nobody is to be told."""

from __future__ import annotations

from huggingface_hub import constants

TO = "someone/tiny"
TOKEN = "hf_told_nobody"
FILE = "generation_config.json"
THERE = {"bos_token_id": 1, "eos_token_id": [2, 7], "temperature": 0.9, "do_sample": True}


def point(monkeypatch, url):
    """Let the hub's client ask at another address."""
    monkeypatch.setattr(constants, "ENDPOINT", url)
    template = url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
