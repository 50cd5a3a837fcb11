"""Muon for the matrices, AdamW for the rest: the best use of few tokens (Jordan et al. 2024)."""

from __future__ import annotations

from typing import Any

import torch

_NOT_MATRICES = ("embed", "head", "shared", "relative_attention_bias", "wte", "wpe", "conv")
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonalised(update: torch.Tensor) -> torch.Tensor:
    """Return (n, rows, columns) updates with singular values near 1: five Newton-Schulz steps."""
    a, b, c = _COEFFICIENTS
    x = update.bfloat16()
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    tall = x.size(-2) > x.size(-1)
    x = x.mT if tall else x
    for _ in range(5):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.mT if tall else x).float()


class Muon:
    """Both optimizers behind one ``step(scale)``; matrices of one shape are updated together."""

    def __init__(self, model: Any, matrix_lr: float = 0.02, other_lr: float = 3e-3) -> None:
        named = list(model.named_parameters())
        self.others = [
            p for n, p in named if p.ndim < 2 or any(word in n for word in _NOT_MATRICES)
        ]
        others = {id(p) for p in self.others}
        self.groups: dict[tuple[int, ...], list[Any]] = {}
        for _, p in named:
            if id(p) not in others:
                self.groups.setdefault(tuple(p.shape), []).append(p)
        self.momentum = {
            s: torch.zeros(len(ps), *s, device=ps[0].device) for s, ps in self.groups.items()
        }
        self.matrix_lr, self.other_lr = matrix_lr, other_lr
        self.adam = torch.optim.AdamW(self.others, lr=other_lr, betas=(0.9, 0.98), weight_decay=0.0)

    def step(self, scale: float) -> None:
        """Apply one update with both learning rates times ``scale``, then clear the gradients."""
        torch.nn.utils.clip_grad_norm_(self.others, 1.0)
        lr = self.matrix_lr * scale
        for shape, parameters in self.groups.items():
            gradient = torch.stack(
                [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
            )
            momentum = self.momentum[shape]
            momentum.lerp_(gradient, 0.05)
            update = (
                orthogonalised(gradient.lerp(momentum, 0.95)) * max(1, shape[0] / shape[1]) ** 0.5
            )
            for p, u in zip(parameters, update, strict=True):
                p.data.mul_(1 - lr * 0.05).add_(u, alpha=-lr)
        for group in self.adam.param_groups:
            group["lr"] = self.other_lr * scale
        self.adam.step()
        for p in [*self.others, *(p for ps in self.groups.values() for p in ps)]:
            p.grad = None

    def state_dict(self) -> dict[str, Any]:
        """Return everything a resumed run needs."""
        return {"momentum": self.momentum, "adam": self.adam.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state_dict()``."""
        self.momentum = state["momentum"]
        self.adam.load_state_dict(state["adam"])
