"""One figure of the paper: computed, drawn and written, here or in a process of its own.

Two figures in two processes take the time of one: importing matplotlib and drawing hold the interpreter's lock.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from groupdp._processes import command_of
from groupdp.drawing import import_matplotlib
from groupdp.engines.interface import Progress
from groupdp.figures import paper
from groupdp.figures.curves import draw_curves, save_figure

Panels = tuple[paper.Panel, ...]


def write_figure(name: str, path: Path, *, progress: Progress | None = None) -> Panels:
    """Computes the panels of the figure called `name` and draws them; the kind of picture is the suffix's."""
    title = next(title for known, _, _, title in paper.SAMPLINGS if known == name)
    panels = paper.panels_of(name, progress=progress, meanwhile=import_matplotlib)
    save_figure(draw_curves([(panel.title, panel.points) for panel in panels], title=title), path)
    return panels


class FigureProcess:
    """`write_figure` in a process of its own."""

    def __init__(self, name: str, path: Path) -> None:
        self._name, self._path = name, path
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Begins, where there is a second processor."""
        if (os.cpu_count() or 1) < 2:
            return
        try:
            self._process = subprocess.Popen(
                command_of(__name__, self._name, str(self._path)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the command, which ends this one
            )
        except OSError:
            self._process = None

    def panels(self) -> Panels:
        """What was drawn; drawn here if the process could not, so that whatever was wrong is said here."""
        if self._process is not None:
            answer, _ = self._process.communicate()
            if self._process.returncode == 0:
                found: Panels = pickle.loads(answer)  # written by `main` below
                return found
        return write_figure(self._name, self._path)

    def end(self) -> None:
        """Leaves nothing that still runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()


@contextmanager
def figure_process(name: str, path: Path) -> Iterator[FigureProcess]:
    """A process that has ended when the block has."""
    process = FigureProcess(name, path)
    try:
        process.start()
        yield process
    finally:
        process.end()


def main() -> None:
    """The other process: NAME PATH, and the panels on standard output."""
    name, path = sys.argv[1:]
    answer = pickle.dumps(write_figure(name, Path(path)))
    sys.stdout.buffer.write(answer)
