"""Processes of our own find modules where this process finds them."""

from __future__ import annotations

import subprocess
import sys

from groupdp._files import command_of


def test_files_of_the_working_directory_are_not_imported(tmp_path, monkeypatch):
    """A folder that has a queue.py of its own is nothing unusual: `python -m` would import it."""
    for name in ("queue.py", "json.py", "numpy.py", "groupdp.py"):
        (tmp_path / name).write_text("raise SystemExit('the wrong file')\n")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "our_module.py").write_text(
        "import sys, queue, json\ndef main():\n    print(queue.Queue.__name__, json.dumps(sys.argv[1:]))\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path / "elsewhere"), *(path for path in sys.path if path)])
    process = subprocess.run(
        command_of("our_module", "one", "two words"), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (process.returncode, process.stdout, process.stderr) == (0, 'Queue ["one", "two words"]\n', "")
