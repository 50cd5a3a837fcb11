"""Runs pytest in forks of one process, which has imported torch and gradio once for all of them."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Timer

import pytest


class Forks:
    """A process in a folder. It forks for each run of pytest, which imports the folder's own modules itself.

    Args:
        folder: where pytest runs.
        environ: the environment there.
        modules: names of modules from outside the folder, which are imported once for all runs.
    """

    def __init__(
        self, folder: Path, environ: Mapping[str, str], modules: Sequence[str] = ()
    ) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, *modules],
            cwd=folder,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def end(self) -> None:
        """End the process."""
        # It ends when its standard input is closed.
        self._process.communicate()

    def run(self, arguments: Sequence[str], limit_s: float) -> str | None:
        """Run pytest and return what it prints, None if it was stopped for taking too long.

        Args:
            arguments: of pytest.
            limit_s: seconds after which it is stopped, with every process it has started.
        """
        asks, answers = self._process.stdin, self._process.stdout
        assert asks is not None
        assert answers is not None
        with tempfile.NamedTemporaryFile("r", encoding="utf-8", errors="replace") as output:
            asks.write(json.dumps([output.name, *arguments]) + "\n")
            asks.flush()
            group = int(answers.readline())
            timer = Timer(limit_s, end_group, [group])
            timer.start()
            answers.readline()
            in_time = timer.is_alive()
            timer.cancel()
            end_group(group)
            return output.read() if in_time else None


def end_group(group: int) -> None:
    """Kill a process group: a process with every process it has started."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def _serve(modules: Sequence[str]) -> None:
    """Fork for each line of standard input. Print the fork's process id, and a second line when it has ended."""
    # As with ``python -m``, modules come from the folder and not from beside this file.
    sys.path[0] = os.getcwd()
    for name in modules:
        importlib.import_module(name)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _test(*json.loads(line))
        # Set before the process id is printed, as the reader may kill the whole group at once.
        os.setpgid(child, child)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
        os.waitpid(child, 0)
        sys.stdout.write("ended\n")
        sys.stdout.flush()


def _test(output: str, *arguments: str) -> None:
    """Run pytest in this process, with all output in a file, and exit."""
    for path, flags, numbers in ((os.devnull, os.O_RDONLY, (0,)), (output, os.O_WRONLY, (1, 2))):
        opened = os.open(path, flags)
        for number in numbers:
            os.dup2(opened, number)
        os.close(opened)
    sys.exit(pytest.main(list(arguments)))


if __name__ == "__main__":
    # After Ctrl-C, ``run`` finds this process gone and ends the tests.
    with suppress(KeyboardInterrupt):
        _serve(sys.argv[1:])
