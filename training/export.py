"""Write a trained model as a folder that plain transformers loads: 16 bits a weight, shards under 15 MB.

python -m training.export target --work FOLDER --to assets/models/storyteller

The heads of train_mtp and the masked diffusion model are written at 8 bits, for engine.models.eight_bits.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from transformers import GenerationConfig, ViTImageProcessorPil

from engine.models.eight_bits import pack
from training import (
    masked_diffusion,
    scenes,
    speech,
    train_captioner,
    train_diffusion,
    train_mtp,
    train_seq2seq,
    train_transcriber,
)
from training import tokenizer as tokenizers
from training.train import CONTEXT, RECIPES, build


def export(
    model: Any,
    tokenizer: Any,
    folder: Path,
    dtype: torch.dtype = torch.float16,
    **generation: int,
) -> None:
    """Save weights, configuration and tokenizer.

    Args:
        model: trained, of any precision.
        tokenizer: as transformers saves it.
        folder: made where it is missing.
        dtype: of the saved weights.
        generation: fields of generation_config.json.
    """
    folder.mkdir(parents=True, exist_ok=True)
    model = model.to(dtype).eval()
    model.generation_config = GenerationConfig(**generation)
    model.save_pretrained(folder, max_shard_size="14MB")
    tokenizer.save_pretrained(folder)


def _seq2seq(work: Path, folder: Path) -> None:
    model = train_seq2seq.build()
    model.load_state_dict(torch.load(work / "seq2seq.pt", weights_only=False)["model"])
    tokenizer = tokenizers.wrap_seq2seq(tokenizers.read(work / tokenizers.SEQ2SEQ))
    ids = {"decoder_start_token_id": train_seq2seq.PAD, "pad_token_id": train_seq2seq.PAD}
    export(model, tokenizer, folder, eos_token_id=train_seq2seq.EOS, **ids)


def image_processor() -> Any:
    """Return the captioner's image processor: Pillow resizes, values from -1 to 1."""
    side, half = {"height": scenes.SIDE, "width": scenes.SIDE}, [0.5, 0.5, 0.5]
    return ViTImageProcessorPil(size=side, image_mean=half, image_std=half)


def _captioner(work: Path, folder: Path) -> None:
    tokenizer = Tokenizer.from_file(str(work / train_captioner.TOKENIZER))
    learner = train_captioner.Learner(train_captioner.build(tokenizer.get_vocab_size()))
    saved = torch.load(work / "captioner.pt", weights_only=False)
    learner.load_state_dict(saved["learner"])
    ids = {"decoder_start_token_id": train_captioner.BOS, "bos_token_id": train_captioner.BOS}
    ids |= {"pad_token_id": train_captioner.PAD, "eos_token_id": train_captioner.EOS}
    wrapped = train_captioner.wrap(tokenizer)
    limit = {"max_new_tokens": train_captioner.CONTEXT - 1}
    export(learner.captioner, wrapped, folder, torch.bfloat16, **limit, **ids)
    image_processor().save_pretrained(folder)


def _transcriber(work: Path, folder: Path) -> None:
    made = train_transcriber
    tokenizer = made.word_tokenizer(speech.read_texts(work).words)
    model = made.build(tokenizer.get_vocab_size())
    saved = torch.load(work / made.CHECKPOINT, weights_only=False)["learner"]
    own = "transcriber."
    model.load_state_dict({n.removeprefix(own): v for n, v in saved.items() if n.startswith(own)})
    ids = {"decoder_start_token_id": made.BOS, "bos_token_id": made.BOS}
    ids |= {"pad_token_id": made.PAD, "eos_token_id": made.EOS}
    limit = {"max_new_tokens": made.CONTEXT - 1}
    export(model, made.wrap(tokenizer), folder, is_multilingual=False, **limit, **ids)
    speech.feature_extractor().save_pretrained(folder)


def _causal(name: str, work: Path, folder: Path) -> None:
    recipe = RECIPES[name]
    model = build(recipe)
    model.load_state_dict(torch.load(work / f"{name}.pt", weights_only=False)["model"])
    file = tokenizers.FOREIGN if recipe.foreign else tokenizers.TARGET
    tokenizer = tokenizers.wrap(tokenizers.read(work / file), CONTEXT)
    export(model, tokenizer, folder, bos_token_id=0, eos_token_id=0, pad_token_id=0)


def _mtp(work: Path, folder: Path) -> None:
    saved = torch.load(work / train_mtp.CHECKPOINT, weights_only=False, map_location="cpu")
    save_eight_bits(saved["heads"], folder)


def _diffusion(work: Path, folder: Path) -> None:
    saved = torch.load(work / train_diffusion.CHECKPOINT, weights_only=False, map_location="cpu")
    # The output matrix is the embedding.
    state = {name: value for name, value in saved["model"].items() if name != "lm_head.weight"}
    save_eight_bits(state, folder)
    masked_diffusion.build().config.save_pretrained(folder)


def save_eight_bits(state: dict[str, torch.Tensor], folder: Path) -> None:
    """Write a state at 8 bits a weight, as the folder's ``model.safetensors``."""
    folder.mkdir(parents=True, exist_ok=True)
    packed = {name: value.contiguous() for name, value in pack(state).items()}
    save_file(packed, folder / "model.safetensors", metadata={"format": "pt"})


_EXPORTERS = {
    "seq2seq": _seq2seq,
    "captioner": _captioner,
    "transcriber": _transcriber,
    "mtp": _mtp,
    "diffusion": _diffusion,
}


def main() -> None:
    """Parse the command line and export."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("model", choices=[*RECIPES, *_EXPORTERS])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--to", type=Path, required=True)
    arguments = parser.parse_args()
    if arguments.model in _EXPORTERS:
        _EXPORTERS[arguments.model](arguments.work, arguments.to)
    else:
        _causal(arguments.model, arguments.work, arguments.to)


if __name__ == "__main__":
    main()
