"""Train multi-token prediction heads for Storyteller, which itself does not change.

python -m training.train_mtp --work WORK --minutes 3 --device cuda

A head reads the state of the head before it (the first: the model's last) and the embedding of the next
token, and names the token after that. Each has the shape that transformers' ``generate(use_mtp=True)`` loads.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from transformers import AutoModelForCausalLM
from transformers.modeling_layers import MtpLayer

from engine.models.eight_bits import pack, unpack
from training import corpus as corpora
from training import tokenizer as tokenizers
from training.clock import learning_scale, save
from training.documents import Documents
from training.fast_llama import FastLlama, run_layer
from training.optim import Muon

HEADS = 3
CHECKPOINT = "mtp.pt"
LENGTH = 256
OPENINGS, OPENING_TOKENS, NEW_TOKENS = 30, 12, 60
WRITTEN_SHARE = 0.8
HARD_WEIGHT = 0.5
SAVE_SECONDS = 30


def make_heads(model: Any, count: int = HEADS) -> nn.ModuleList:
    """Return heads that begin as copies of the last layer and ignore the next token."""
    config = copy.deepcopy(model.config)
    config.num_mtp_layers = count
    config = config.get_mtp_config()
    last, width = model.model.layers[-1], config.hidden_size
    size = _residual_size(model)
    heads = nn.ModuleList()
    for index in range(count):
        head = MtpLayer(config, type(last), type(model.model.norm), index)
        head.mtp_block.load_state_dict(last.state_dict())
        head.post_norm.load_state_dict(model.model.norm.state_dict())
        with torch.no_grad():
            head.eh_proj.weight[:, :width].normal_(0, 0.02)
            head.eh_proj.weight[:, width:] = torch.eye(width)
            # The block is a copy of the last layer, so it is given states of the size it knows.
            head.hnorm.weight.fill_(size)
            head.enorm.weight.fill_(size)
        heads.append(head)
    return heads


@torch.no_grad()
def _residual_size(model: Any) -> float:
    """Return the usual root mean square of the states that the last layer reads."""
    ids = torch.arange(100, 400, device=model.device)[None] % model.config.vocab_size
    states = model(ids, output_hidden_states=True).hidden_states[-2]
    return float(states.pow(2).mean(-1).sqrt().median())


def run_heads(
    heads: Any,
    model: Any,
    hidden: torch.Tensor,
    ids: torch.Tensor,
    dtype: Any,
    layer: Any = run_layer,
) -> list[torch.Tensor]:
    """Return every head's (rows, length, width) states; that of head k at t foresees token t + k + 1.

    Args:
        heads: of ``make_heads``.
        model: the model they belong to.
        hidden: (rows, length, width) its last states, after the norm.
        ids: (rows, length).
        dtype: of the matrix products.
        layer: runs a decoder layer.
    """
    positions = torch.arange(ids.shape[1], device=ids.device)[None]
    found, state = [], hidden
    for k, head in enumerate(heads, 1):
        later = F.pad(ids[:, k:], (0, k))
        both = torch.cat([head.enorm(model.model.embed_tokens(later)), head.hnorm(state)], -1)
        x = head.eh_proj(both).to(hidden.dtype)
        cos, sin = (t.to(dtype)[:, None] for t in model.model.rotary_emb(x, positions + k))
        state = head.post_norm(layer(head.mtp_block, x, cos, sin))
        found.append(state)
    return found


def head_loss(own: torch.Tensor, model: torch.Tensor) -> torch.Tensor:
    """Return how far a head's (rows, length, vocab) logits are from the model's.

    The divergence serves sampling; the model's best token, which greedy search takes, counts extra.
    """
    own, model = own.float().log_softmax(-1), model.float().log_softmax(-1)
    divergence = (model.exp() * (model - own)).sum(-1).mean()
    best = model.argmax(-1, keepdim=True)
    return divergence - HARD_WEIGHT * own.gather(-1, best).mean()


class HeadTrainer:
    """The heads, their optimizer and their clock.

    Args:
        model: the model, frozen.
        work: where the checkpoint is; training goes on from it.
        minutes: how long the whole training takes.
    """

    def __init__(self, model: Any, work: Path, minutes: float) -> None:
        self.model, self.path, self.seconds = model, work / CHECKPOINT, minutes * 60
        self.heads = make_heads(model).to(model.device)
        self.optimizer = Muon(self.heads, matrix_lr=0.02, other_lr=2e-3)
        self.step, self.spent = 0, 0.0
        compiled = model.device.type == "cuda"
        self.fast = FastLlama(model, compiled=compiled)
        self.layer = torch.compile(run_layer, dynamic=False) if compiled else run_layer
        self.loss = torch.compile(head_loss, dynamic=False) if compiled else head_loss
        if self.path.exists():
            saved = torch.load(self.path, weights_only=False, map_location=model.device)
            self.heads.load_state_dict(saved["heads"])
            self.optimizer.load_state_dict(saved["optimizer"])
            self.step, self.spent = saved["step"], saved["spent"]

    def train_step(self, ids: torch.Tensor) -> list[float] | None:
        """Make one update; return the losses of the heads every 100 steps."""
        model = self.model
        with torch.autocast(ids.device.type, torch.bfloat16):
            with torch.no_grad():
                hidden = self.fast(ids, set(), 0.0, torch.bfloat16)[len(model.model.layers)]
                wanted = model.lm_head(hidden)
            states = run_heads(self.heads, model, hidden, ids, torch.bfloat16, self.layer)
            losses = [
                self.loss(model.lm_head(state[:, :-k]), wanted[:, k:])
                for k, state in enumerate(states, 1)
            ]
        torch.stack(losses).sum().backward()
        self.optimizer.step(learning_scale(self.step, self.spent / self.seconds))
        self.step += 1
        return [round(float(x.detach()), 3) for x in losses] if self.step % 100 == 0 else None

    def save(self) -> None:
        """Write the checkpoint."""
        save(
            {
                "heads": self.heads.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "step": self.step,
                "spent": self.spent,
            },
            self.path,
        )


@torch.no_grad()
def write_greedily(model: Any, tokenizer: Any, held_out: list[str]) -> list[list[int]]:
    """Return the tokens of the model's greedy continuations of held-out openings."""
    encoded = [e.ids[:OPENING_TOKENS] for e in tokenizer.encode_batch(held_out)]
    openings = [ids for ids in encoded if len(ids) == OPENING_TOKENS][:OPENINGS]
    ids = torch.tensor(openings, device=model.device)
    out = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=NEW_TOKENS,
        do_sample=False,
        pad_token_id=0,
    )
    rows = out.tolist()
    return [row[: row.index(0) + 1] if 0 in row else row for row in rows]


@torch.no_grad()
def measure(model: Any, heads: Any, texts: list[list[int]]) -> dict[str, Any]:
    """Return tokens per pass of greedy drafting, and how often each head was right when it was asked."""
    passes = tokens = 0
    right, asked = [0] * len(heads), [0] * len(heads)
    for ids in texts:
        row = torch.tensor([ids], device=model.device)
        hidden = model.model(row).last_hidden_state
        states = run_heads(heads, model, hidden, row, torch.float32)
        drafts = [model.lm_head(state)[0].argmax(-1).tolist() for state in states]
        place = OPENING_TOKENS - 1
        while place + 1 < len(ids):
            accepted = 0
            for k, draft in enumerate(drafts):
                if place + k + 2 >= len(ids):
                    break
                asked[k] += 1
                if draft[place] != ids[place + k + 2]:
                    break
                right[k] += 1
                accepted += 1
            passes, tokens = passes + 1, tokens + accepted + 1
            place += accepted + 1
    shares = [round(a / max(b, 1), 3) for a, b in zip(right, asked, strict=True)]
    return {"tokens_per_pass": round(tokens / passes, 3), "right": shares, "texts": len(texts)}


def main() -> None:
    """Train for a wall-clock time, then measure, also with the weights at 8 bits."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=3)
    parser.add_argument("--model", default="assets/models/storyteller")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rows", type=int, default=128)
    arguments = parser.parse_args()
    began = time.monotonic()
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(arguments.model, dtype=torch.float32)
    model = model.to(arguments.device).requires_grad_(False).eval()
    trainer = HeadTrainer(model, arguments.work, arguments.minutes)
    corpus = corpora.load(arguments.work, with_written=True)
    tokenizer = tokenizers.read(Path(arguments.model) / tokenizers.TARGET)
    texts = write_greedily(model, tokenizer, corpus.held_out)
    own = Documents(corpus.written, tokenizer, arguments.device)
    people = Documents(corpus.stories + corpus.books, tokenizer, arguments.device)
    print(len(own), "written tokens,", len(people), "of people", flush=True)
    before, saved = trainer.spent - (time.monotonic() - began), 0.0
    rows = int(arguments.rows * WRITTEN_SHARE)
    while trainer.spent < trainer.seconds:
        ids = [own.packed(rows, LENGTH), people.packed(arguments.rows - rows, LENGTH)]
        losses = trainer.train_step(torch.cat(ids))
        trainer.spent = before + time.monotonic() - began
        if losses:
            print(trainer.step, round(trainer.spent), losses, flush=True)
        if trainer.spent - saved > SAVE_SECONDS:
            saved = trainer.spent
            trainer.save()
            print(json.dumps(measure(model, trainer.heads, texts)), flush=True)
    trainer.save()
    print(json.dumps({"steps": trainer.step, **measure(model, trainer.heads, texts)}))
    trainer.heads.load_state_dict(unpack(pack(trainer.heads.state_dict())))
    print(json.dumps({"eight_bits": True, **measure(model, trainer.heads, texts)}))


if __name__ == "__main__":
    main()
