"""Subprocess that asks the hub about a model; it can be killed whatever the hub does.

It reads a job as ``fetching`` does, with the target folder ``into``, and writes one JSON line: ``facts``
or ``refused``. It downloads only config.json, adapter_config.json, tokenizer_config.json and
generation_config.json.
"""

from __future__ import annotations

from typing import Any

from engine.models.hub_download_job import (
    count_download_bytes,
    hub_errors,
    read_hub_order,
    write_message,
)
from engine.sources.hub_cache import split_revision
from engine.sources.lora_adapters import CONFIG as ADAPTER
from engine.sources.lora_adapters import GENERATION_CONFIG

CONFIG, TOKENIZER, TEMPLATE = "config.json", "tokenizer_config.json", "chat_template.jinja"
_MAX_BYTES = {
    CONFIG: 1_000_000,
    ADAPTER: 1_000_000,
    TOKENIZER: 10_000_000,
    GENERATION_CONFIG: 1_000_000,
}
_MAX_CHARS = 60


def main() -> None:
    """Run the job from standard input."""
    order = read_hub_order()
    from engine.errors import ModelError

    try:
        write_message(facts=_read_hub_facts(order))
    except ModelError as error:
        write_message(refused=str(error))


def _read_hub_facts(order: dict[str, Any]) -> dict[str, Any]:
    """Return the hub's facts about a model; ``problem`` says why its small files could not be fetched."""
    from huggingface_hub import HfApi

    from engine.errors import ModelError

    name, token = order["name"], None if order["token"] else False
    repository, asked = split_revision(name)
    with hub_errors(name):
        info = HfApi(token=token).model_info(
            repository, revision=asked, timeout=order["probe_s"], files_metadata=True
        )
    siblings = info.siblings or []
    total, weights = count_download_bytes(siblings)
    problem = None
    try:
        _download_small_files(
            order, info.sha, {file.rfilename: file.size or 0 for file in siblings}
        )
    except ModelError as error:
        problem = str(error)
    values = getattr(info.safetensors, "total", None)
    return {
        "revision": info.sha,
        "licence": _card_licence(info.card_data),
        "gated": bool(info.gated),
        "private": bool(info.private),
        "disk_bytes": total,
        "weights_bytes": weights,
        "values": values if isinstance(values, int) and values > 0 else None,
        "template_file": any(file.rfilename == TEMPLATE for file in siblings),
        "problem": problem,
    }


def _download_small_files(
    order: dict[str, Any], revision: str | None, sizes: dict[str, int]
) -> None:
    from huggingface_hub import hf_hub_download

    # Not into the hub's cache, where a folder with a config.json would look like a model.
    for file, most in _MAX_BYTES.items():
        if sizes.get(file, most + 1) <= most:
            with hub_errors(order["name"]):
                hf_hub_download(
                    split_revision(order["name"])[0],
                    file,
                    revision=revision,
                    local_dir=order["into"],
                    etag_timeout=order["probe_s"],
                    token=None if order["token"] else False,
                )


def _card_licence(card: Any) -> str | None:
    """Return the licence in a model card, None if missing."""
    said = getattr(card, "license", None)
    if said == "other":
        said = getattr(card, "license_name", None) or said
    return str(said)[:_MAX_CHARS] if said else None


if __name__ == "__main__":
    main()
