"""Train one model of the family: target (LayerSkip), draft (distilled) or foreign draft.

python -m training.train target --work WORK --minutes 40
"""

from __future__ import annotations

import argparse
import math
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F
from tqdm import tqdm
from transformers import LlamaConfig, LlamaForCausalLM

from training import corpus as corpora
from training import tokenizer as tokenizers
from training.corpus import Mixture
from training.fast_llama import FastLlama
from training.optim import Muon

CONTEXT = 1024
LENGTH = 256
WARM_UP_STEPS = 50
STEADY_SHARE = 0.35
SAVE_EVERY = 200
DISTIL_STRIDE = 2


@dataclass(frozen=True)
class Recipe:
    """Shape and losses of one model."""

    vocab_size: int
    width: int
    inner: int
    layers: int
    heads: int
    kv_heads: int
    batch: int = 16
    early_exit_scale: float = 0.0
    """Weight of the early-exit loss (2404.16710); 0 for none."""
    layer_dropout: float = 0.0
    facts_after: int = 0
    """Facts are learned by the layers after this one only; 0 for by all."""
    distil: bool = False
    foreign: bool = False


RECIPES = {
    "target": Recipe(
        4096, 256, 640, 16, 4, 2, early_exit_scale=0.3, layer_dropout=0.1, facts_after=10
    ),
    "draft": Recipe(4096, 192, 352, 3, 4, 2, distil=True),
    "foreign": Recipe(2048, 160, 512, 2, 4, 4, foreign=True),
}


def build(recipe: Recipe, seed: int = 0) -> Any:
    """Return an untrained model of a recipe."""
    torch.manual_seed(seed)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=recipe.vocab_size,
            hidden_size=recipe.width,
            intermediate_size=recipe.inner,
            num_hidden_layers=recipe.layers,
            num_attention_heads=recipe.heads,
            num_key_value_heads=recipe.kv_heads,
            max_position_embeddings=CONTEXT,
            tie_word_embeddings=True,
            bos_token_id=0,
            eos_token_id=0,
            pad_token_id=0,
            rms_norm_eps=1e-5,
        )
    )
    for name, p in model.named_parameters():
        if p.ndim == 2:
            torch.nn.init.normal_(p, std=0.02)
        if "o_proj" in name or "down_proj" in name:
            p.data.mul_(1.5 / math.sqrt(2 * recipe.layers))
    return model


class Trainer:
    """The loop: batches, losses, schedule, checkpoints."""

    def __init__(
        self,
        recipe: Recipe,
        mixture: Mixture,
        teacher: Any = None,
        *,
        peak: float = 1.0,
        polish: bool = False,
        compiled: bool = True,
    ) -> None:
        random.seed(0)
        self.recipe, self.teacher, self.peak, self.polish = recipe, teacher, peak, polish
        self.model = build(recipe)
        self.fast = FastLlama(self.model, compiled=compiled)
        self.optimizer = Muon(self.model)
        self.batches = mixture.batches(recipe.batch)
        self.step = 0

    def losses(
        self, batch: torch.Tensor, facts: torch.Tensor, progress: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return (total loss, next-token loss in nats).

        Args:
            batch: (batch, length + 1) ids.
            facts: (batch, length + 1) True where the text is facts.
            progress: place on the schedule, 0 to 1.
        """
        recipe = self.recipe
        inputs, targets = batch[:, :-1], batch[:, 1:]
        exits = self._exits() if recipe.early_exit_scale else set()
        dropout = recipe.layer_dropout * min(1.0, 2 * progress)
        late = (recipe.facts_after, facts[:, :-1]) if recipe.facts_after else None
        with torch.autocast("cpu", torch.bfloat16):
            hidden = self.fast(inputs, exits, dropout, torch.bfloat16, late)
            logits = self.model.lm_head(hidden[recipe.layers])
            main = F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
            total = main
            for layer, states in hidden.items():
                if layer != recipe.layers:
                    early = self._early(states, targets, facts, logits)
                    total = total + (1.0 if self.polish else recipe.early_exit_scale) * early
            if self.teacher is not None:
                total = 0.3 * total + 0.7 * self._distillation(inputs, logits)
        return total, main

    def _early(
        self,
        states: torch.Tensor,
        targets: torch.Tensor,
        facts: torch.Tensor,
        final: torch.Tensor,
    ) -> torch.Tensor:
        """Return the loss of an exit on every other position, which halves its cost; not on facts.

        While polishing it is the divergence from the model's own last layer: that is what decides
        whether an early guess is accepted.
        """
        half = slice(random.randrange(2), None, 2)
        logits = self.model.lm_head(states[:, half]).flatten(0, 1).float()
        counted = torch.ones_like(targets[:, half], dtype=torch.bool).flatten()
        if self.recipe.facts_after:
            counted = ~facts[:, 1:][:, half].flatten()
        if self.polish:
            wanted = final[:, half].detach().flatten(0, 1).float().log_softmax(-1)
            losses = F.kl_div(logits.log_softmax(-1), wanted, reduction="none", log_target=True)
            losses = losses.sum(-1)
        else:
            losses = F.cross_entropy(logits, targets[:, half].flatten(), reduction="none")
        return (losses * counted).sum() / counted.sum().clamp(min=1)

    def _exits(self) -> set[int]:
        """Choose the exit of this step: a third of the depth every other step, else any other."""
        third = self.recipe.layers // 3
        if self.polish or self.step % 2 == 0:
            return {third}
        return {random.choice([i for i in range(2, self.recipe.layers - 1) if i != third])}

    def _distillation(self, inputs: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        """Return the divergence from the teacher on every other position, in nats."""
        start = random.randrange(DISTIL_STRIDE)
        with torch.no_grad():
            hidden = self.teacher(inputs, set(), 0.0, torch.bfloat16)
            last = hidden[len(self.teacher.model.model.layers)][:, start::DISTIL_STRIDE]
            wanted = F.log_softmax(self.teacher.model.lm_head(last).float(), -1)
        own = F.log_softmax(logits[:, start::DISTIL_STRIDE].float(), -1)
        return F.kl_div(own, wanted, reduction="none", log_target=True).sum(-1).mean()

    def train_step(self, progress: float) -> float:
        """Make one update; ``progress`` in [0, 1] places it on the schedule. Returns the loss."""
        ids, facts = next(self.batches)
        total, main = self.losses(torch.tensor(ids), torch.tensor(facts), progress)
        total.backward()
        decay = 1.0 if progress < STEADY_SHARE else max(0.02, (1 - progress) / (1 - STEADY_SHARE))
        self.optimizer.step(min(1.0, (self.step + 1) / WARM_UP_STEPS) * decay * self.peak)
        self.step += 1
        return main.item()

    def state(self) -> dict[str, Any]:
        """Return a checkpoint."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "random": random.getstate(),
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Continue from a checkpoint: the same batches, the same numbers."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        for _ in range(state["step"]):
            next(self.batches)
        self.step = state["step"]
        random.setstate(state["random"])


def run(
    name: str,
    work: Path,
    minutes: float,
    peak: float = 1.0,
    *,
    again: bool = False,
    polish: bool = False,
) -> None:
    """Train a model for a wall-clock time, saving checkpoints; resumes where it stopped.

    Args:
        name: of the recipe.
        work: documents, tokenizers, checkpoints and what the target wrote for its drafts.
        minutes: of the whole schedule.
        peak: factor of both learning rates.
        again: start a new schedule from the weights of the finished one.
        polish: teach the early exit what the last layer says, also on what the target writes.
    """
    recipe = RECIPES[name]
    drafting = recipe.distil or recipe.foreign
    corpus = corpora.load(work, with_written=drafting or polish)
    tokenizer = tokenizers.FOREIGN if recipe.foreign else tokenizers.TARGET
    mixture = Mixture(corpus, tokenizers.read(work / tokenizer), LENGTH, stories_only=drafting)
    teacher = _teacher(work) if recipe.distil else None
    trainer = Trainer(recipe, mixture, teacher, peak=peak, polish=polish)
    checkpoint, spent = work / f"{name}.pt", 0.0
    if again:
        trainer.model.load_state_dict(torch.load(checkpoint, weights_only=False)["model"])
    elif checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=False)
        trainer.resume(saved)
        spent = saved["seconds"]
    started = time.monotonic() - spent
    smooth = None
    with tqdm(total=round(minutes * 60), initial=round(spent), unit="s") as bar:
        while (seconds := time.monotonic() - started) < minutes * 60:
            loss = trainer.train_step(seconds / (minutes * 60))
            smooth = loss if smooth is None else 0.98 * smooth + 0.02 * loss
            tokens = trainer.step * recipe.batch * LENGTH
            bar.set_postfix(step=trainer.step, loss=f"{smooth:.3f}", tokens=f"{tokens / 1e6:.1f}M")
            bar.update(round(time.monotonic() - started) - bar.n)
            if trainer.step % SAVE_EVERY == 0:
                torch.save(trainer.state() | {"seconds": time.monotonic() - started}, checkpoint)
    torch.save(trainer.state() | {"seconds": minutes * 60}, checkpoint)


def _teacher(work: Path) -> FastLlama:
    model = build(RECIPES["target"])
    model.load_state_dict(torch.load(work / "target.pt", weights_only=False)["model"])
    return FastLlama(model.eval())


def main() -> None:
    """Parse the command line and train."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("model", choices=RECIPES)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=40)
    parser.add_argument("--peak", type=float, default=1.0, help="factor of the learning rates")
    parser.add_argument("--again", action="store_true", help="a second schedule on the weights")
    parser.add_argument("--polish", action="store_true", help="self-distil the early exit")
    a = parser.parse_args()
    run(a.model, a.work, a.minutes, a.peak, again=a.again, polish=a.polish)


if __name__ == "__main__":
    main()
