"""arXiv numbers of the papers behind parameters, for docs/papers.md."""

from __future__ import annotations

PAPERS: dict[str, tuple[str, ...]] = {
    "repetition_penalty": ("1909.05858",),
    "guidance_scale": ("2306.17806",),
    "top_k": ("1805.04833",),
    "top_p": ("1904.09751",),
    "min_p": ("2407.01082",),
    "top_h": ("2509.02510",),
    "typical_p": ("2202.00666",),
    "epsilon_cutoff": ("2210.15191",),
    "eta_cutoff": ("2210.15191",),
    "scheme": ("2301.10226", "2306.04634"),
}
"""Parameter name -> arXiv numbers."""
