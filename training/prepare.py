"""Read the corpus, split off the held-out stories and keep the documents for the next commands.

python -m training.prepare --corpus FOLDER --work WORK
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from training import corpus as corpora


def main() -> None:
    """Prepare and print what there is."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    arguments = parser.parse_args()
    corpus = corpora.read(arguments.corpus)
    corpora.save(corpus, arguments.work)
    for name, documents in asdict(corpus).items():
        print(f"{name:10}{len(documents):8} documents{sum(map(len, documents)):12} characters")


if __name__ == "__main__":
    main()
