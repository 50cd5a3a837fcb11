"""Find draft models for a target model by comparing tokenizers, on this machine and in the catalogue.

No weights are loaded: only the headers of safetensors files are read.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from engine.errors import EngineError
from engine.messages import Message
from engine.models import files, sizes
from engine.models.vocabularies import Vocabulary, read_vocabulary
from engine.settings import SETTINGS
from engine.sources.catalogue import CATALOGUE, drafts_for
from engine.sources.hub_cache import is_hub_id
from engine.sources.source import Adapter, Embedded, Folder, Gguf, Hub, Source

_PREFIX = "models--"
_MAX_FOLDERS = 200
"""Most folders searched, in the hub's cache and next to the target's own."""
_EARLY_EXIT_HINTS = ("early_exit", "layerskip", "layer_skip", "exit_layer")
"""Parts of config field names that indicate training for early exit."""


@dataclass(frozen=True)
class DraftPair:
    """A draft model for a target model.

    Attributes:
        name: the draft model, as in ``load``.
        shares: whether token ids mean the same in both; None if nothing was compared.
        values: number of values in its weights; None if they are not on this machine.
        reason: why it is offered, in one sentence.
    """

    name: str
    shares: bool | None
    values: int | None
    reason: str


@dataclass(frozen=True)
class _LocalDecoder:
    name: str
    vocabulary: Vocabulary | None
    values: int


def find_draft_pairs(target: Source | None, tokenizer: str) -> list[DraftPair]:
    """Return the draft models for a target model, best fit first; nothing is downloaded or loaded.

    Args:
        target: where the model comes from; None for an unknown model.
        tokenizer: same_tokenizer (the draft model must share it) or any_tokenizer.
    """
    title = "" if target is None else target.name
    listed = [Source.from_entry(entry) for entry in drafts_for(title, tokenizer)]
    known = [source for source in listed if source.is_offered]
    ours = None if target is None else _find_decoder(target)
    found: list[DraftPair] = []
    for source in dict.fromkeys([*known, *list_local_models(target)]):
        theirs = _find_decoder(source) if source != target else None
        if theirs is None:
            if source in known and source != target and source.folder() is None:
                found.append(_remote_pair(source.name, title))
        elif ours is not None:
            found += _compare_models(ours, theirs, tokenizer, listed=source in known)
        elif source in known:
            reason = Message("{fault}.", fault=_catalogue_reason(source.name, title))
            found.append(DraftPair(source.name, None, theirs.values, reason))
    if not found and tokenizer == "same_tokenizer":
        return _self_draft(ours)
    place = {source.name: number for number, source in enumerate(known)}
    return sorted(found, key=lambda pair: (place.get(pair.name, len(place)), pair.values or 0))


def _self_draft(ours: _LocalDecoder | None) -> list[DraftPair]:
    """Offer the target as its own draft model with fewer bits; not on a public deployment."""
    if ours is None or ours.vocabulary is None or SETTINGS.public:
        return []
    reason = (
        "Nothing else here shares its tokenizer. The model itself can draft: hold the draft's weights"
        " with fewer bits, which takes less memory and changes few of its choices."
    )
    return [DraftPair(ours.name, True, ours.values, reason)]


def _compare_models(
    ours: _LocalDecoder, theirs: _LocalDecoder, tokenizer: str, *, listed: bool
) -> list[DraftPair]:
    """Compare two local models; return a list with their pair, or an empty list."""
    if ours.vocabulary is None or theirs.vocabulary is None:
        return []
    shares = ours.vocabulary.digest == theirs.vocabulary.digest
    # A draft model as large as its target saves nothing.
    if (not shares and tokenizer == "same_tokenizer") or theirs.values >= ours.values:
        return []
    if tokenizer == "any_tokenizer" and shares and not listed:
        return []
    if not shares:
        template = (
            "It has its own tokenizer ({n} tokens), so its drafts are translated. Its weights "
            "are {share} of the main model's."
        )
    elif ours.vocabulary.ends != theirs.vocabulary.ends:
        template = (
            "All {n} tokens mean the same in both, but other ones end a text; its weights are "
            "{share} of the main model's."
        )
    else:
        template = (
            "All {n} tokens mean the same in both; its weights are {share} of the main model's."
        )
    size, share = f"{theirs.vocabulary.size:,}", _format_share(theirs.values, ours.values)
    reason = Message(template, n=size, share=share)
    return [DraftPair(theirs.name, shares, theirs.values, reason)]


def _format_share(values: int, of: int) -> str:
    percent = 100 * values / of
    return f"{percent:.0f} %" if percent >= 1 else "less than 1 %"


def _remote_pair(name: str, target: str) -> DraftPair:
    reason = Message("{reason}; it would be fetched first.", reason=_catalogue_reason(name, target))
    return DraftPair(name, None, None, reason)


def _catalogue_reason(name: str, target: str) -> str:
    if target in CATALOGUE[name].fits:
        return "The catalogue says that it shares the tokenizer"
    return "A small model of the catalogue; nothing was compared"


def list_local_models(target: Source | None = None) -> list[Source]:
    """List the models on this machine that a run could use, embedded ones first.

    The list includes the hub's cache; on a public deployment only the models it offers. If the target
    is a folder, model folders next to it are listed too.
    """
    embedded = [Embedded(e.name) for e in CATALOGUE.values() if e.embedded and e.available]
    return [*embedded, *_list_cached_hub_models(), *_list_sibling_folders(target)]


def _list_cached_hub_models() -> list[Source]:
    from huggingface_hub import constants

    try:
        folders = sorted(path.name for path in Path(constants.HF_HUB_CACHE).iterdir())
    except OSError:
        return []
    # The hub's cache writes the slash of a name as two dashes.
    names = [
        n.removeprefix(_PREFIX).replace("--", "/", 1) for n in folders if n.startswith(_PREFIX)
    ]
    offered = [name for name in names if is_hub_id(name) and Hub(name).is_offered]
    found = map(Source.find, offered[:_MAX_FOLDERS])
    return [source for source in found if source is not None and source.folder() is not None]


def _list_sibling_folders(target: Source | None) -> list[Source]:
    place = target.place if isinstance(target, Adapter) else target
    if not isinstance(place, Folder | Gguf):
        return []
    try:
        folders = sorted(Path(place.name).resolve().parent.iterdir())[:_MAX_FOLDERS]
    except OSError:
        return []
    return [Folder(str(folder)) for folder in folders if (folder / "config.json").is_file()]


def _find_decoder(source: Source) -> _LocalDecoder | None:
    """Return vocabulary and size of a local decoder-only model; None for any other."""
    folder = source.folder()
    if folder is None:
        return None
    values = _count_decoder_values(source.name, folder, _modified_times(folder))
    return None if not values else _LocalDecoder(source.name, read_vocabulary(folder), values)


def _modified_times(folder: str) -> tuple[int, ...]:
    paths = [Path(folder) / "config.json", *sorted(Path(folder).glob("*.safetensors"))]
    return tuple(path.stat().st_mtime_ns for path in paths if path.is_file())


@lru_cache(maxsize=256)
def _count_decoder_values(name: str, folder: str, stamp: tuple[int, ...]) -> int:
    """Count the values of a decoder's weights; 0 if it is not a decoder or cannot be read."""
    del stamp  # part of the cache key: changed files are counted again
    try:
        config = files.check_folder(folder)
        kinds = config.get("architectures") or ["ForCausalLM"]
        decodes = any(str(kind).endswith(("ForCausalLM", "LMHeadModel")) for kind in kinds)
        if config.get("is_encoder_decoder") or not decodes:
            return 0
        return sizes.count_values(name, folder)
    except EngineError:
        return 0


def early_exit_reason(source: Source) -> str | None:
    """Return why a model should draft well with its own first layers; None without evidence.

    LayerSkip (Elhoushi et al. 2024, arXiv 2404.16710) trains a model for early exit. Such a model is
    recognised by its name, by a field of its config.json, or by assistant_early_exit in its
    generation_config.json.

    Args:
        source: where the model comes from; nothing is downloaded.
    """
    folder = source.folder()
    # A model that is not on this machine has no files here, but its name may still say it.
    config, own = (
        {} if folder is None else files.read_json_object(Path(folder) / name)
        for name in ("config.json", "generation_config.json")
    )
    layer = own.get("assistant_early_exit")
    if isinstance(layer, int):
        return Message(
            "Its generation_config.json asks for assistant_early_exit = {layer}.", layer=layer
        )
    field = next(
        (key for key in config if any(hint in key.lower() for hint in _EARLY_EXIT_HINTS)), None
    )
    if field is not None:
        return Message(
            "Its config.json has the field {field}: its layers were trained to be left.",
            field=field[:40],
        )
    names = (source.name, str(config.get("_name_or_path", "")))
    if any("layerskip" in text.lower() for text in names):
        return "By its name it was trained with LayerSkip, so that its layers can be left early."
    return None
