"""Writes what commands print today into the transcripts of the README and of the guides.

Run from the project's root after a change of output, then read the difference before it is committed:

    .venv/bin/python tools/transcripts.py [PAGE ...]

Transcripts shortened by hand (with `...`, or with fewer digits of JSON) are kept where they still come out, and named
where they do not. Values that comments in Python blocks state are never touched.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "shared"))

import page_blocks  # noqa: E402
from command_line import groupdp  # noqa: E402


def refreshed(block: page_blocks.Block) -> str:
    """The block's commands with their output of today."""
    parts = []
    for typed in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command = re.match(r"(?:.*\\\n)*.*", typed)
        assert command is not None
        shown = typed[command.end() :].strip("\n")
        arguments = command.group(0).replace("\\\n", " ").removeprefix("groupdp ")
        outcome = groupdp(arguments)
        printed = "\n".join(line.rstrip() for line in (outcome.output + outcome.errors).splitlines()).strip("\n")
        if "..." in shown or "--json" in arguments:
            if page_blocks.differences(shown, printed) is not None:
                print(f"{block.place}: shortened by hand, to be mended by hand: groupdp {arguments}\n{printed}\n")
            printed = shown
        parts.append(f"$ {command.group(0)}\n{printed}".rstrip("\n"))
    return "\n\n".join(parts)


def refresh(page: Path) -> None:
    """All transcripts of a page, in a directory of its own, as the tests run them."""
    text = page.read_text(encoding="utf-8")
    namespace: dict[str, object] = {"__name__": page.stem}
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "examples", Path(folder) / "examples")
        os.chdir(folder)
        for block in page_blocks.blocks_of(page):
            if block.reason is not None:
                continue
            if block.file_name is not None:
                Path(block.file_name).write_text(block.text + "\n", encoding="utf-8")
            if block.is_transcript:
                fence = f"```{block.info}\n"
                text = text.replace(f"{fence}{block.text}\n```", f"{fence}{refreshed(block)}\n```")
            elif block.language == "python":
                exec(compile(block.text, block.place, "exec"), namespace)
        os.chdir(ROOT)
    page.write_text(text, encoding="utf-8")


def main() -> None:
    os.environ.update(COLUMNS="80", TERM="dumb")
    pages = [Path(name).resolve() for name in sys.argv[1:]] or page_blocks.PAGES
    for page in pages:
        if any(block.is_transcript for block in page_blocks.blocks_of(page)):
            refresh(page)


if __name__ == "__main__":
    main()
