"""Replace a checkpoint's weights by the mean of several schedules' (Izmailov et al. 2018, arXiv 1803.05407).

python -m training.average WORK/draft_first.pt WORK/draft.pt --to WORK/draft.pt
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch


def mean(checkpoints: Sequence[Path]) -> dict[str, torch.Tensor]:
    """Return the mean of the models' weights, each file weighing the same.

    Raises:
        ValueError: the checkpoints are of different models.
    """
    states = [torch.load(path, weights_only=False)["model"] for path in checkpoints]
    if any(s.keys() != states[0].keys() for s in states):
        raise ValueError("The checkpoints are of different models.")
    return {k: torch.stack([s[k].float() for s in states]).mean(0) for k in states[0]}


def main() -> None:
    """Parse the command line and write the mean."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("checkpoints", type=Path, nargs="+")
    parser.add_argument("--to", type=Path, required=True)
    arguments = parser.parse_args()
    torch.save({"model": mean(arguments.checkpoints)}, arguments.to)


if __name__ == "__main__":
    main()
