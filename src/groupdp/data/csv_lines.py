"""The lines of a CSV file, looked at before DuckDB reads them.

DuckDB loses a row without a word if its line is longer than its buffer, so lines are measured here. It refuses files
whose lines end in different ways, so those get a copy in which every row ends in a line feed.
"""

from __future__ import annotations

import gzip
import mmap
import re
import shutil
from pathlib import Path
from typing import BinaryIO, cast

from groupdp.errors import InvalidArgument, InWords, shown

#: Bytes looked at in one go.
_BLOCK = 2**20


def readable_lines(file: str, *, delimiter: str, longest: int, folder: Path) -> str:
    """`file`, or a copy in `folder` where its lines end in different ways; refuses lines of more than `longest` bytes.

    A line is refused once it is longer than `longest` by a block at most; DuckDB refuses those between.
    """
    if not _has_mixed_ends(file, longest):
        return file
    made = folder / f"line-ends-{len(list(folder.glob('line-ends-*')))}"
    made.mkdir()
    copy = made / Path(file).name.removesuffix(".gz").removesuffix(".GZ")
    plain = Path(file)
    if file.lower().endswith(".gz"):
        plain = made / "unpacked"
        with opened(file) as packed, open(plain, "wb") as unpacked:
            shutil.copyfileobj(packed, unpacked)
    with open(plain, "rb") as source, open(copy, "wb") as target:
        _with_line_feeds(source, target, delimiter)
    return str(copy)


def opened(file: str) -> BinaryIO:
    """The bytes of a file, unpacked if its name ends in .gz."""
    return cast(BinaryIO, gzip.open(file, "rb") if file.lower().endswith(".gz") else open(file, "rb"))


def _has_mixed_ends(file: str, longest: int) -> bool:
    """Whether the file has two of the three line ends: CR LF, LF, CR."""
    lines, begun, ended_in_return = 1, 0, False
    ends: set[bytes] = set()
    try:
        with opened(file) as source:
            while block := source.read(min(_BLOCK, longest)):
                joined = ended_in_return and block.startswith(b"\n")
                if ended_in_return:
                    ends.add(b"\r\n" if joined else b"\r")
                last = max(block.rfind(b"\n"), block.rfind(b"\r"))
                first = min((at for at in (block.find(b"\n"), block.find(b"\r")) if at >= 0), default=len(block))
                if begun + first > longest:
                    longer = InWords(f"a longer line {lines} of {shown(file)}")
                    raise InvalidArgument("every line", longer, f"be at most {longest} bytes")
                begun = begun + len(block) if last < 0 else len(block) - 1 - last
                lines += block.count(b"\n")
                ended_in_return = block.endswith(b"\r")
                ends |= _ends_in(block, skip=int(joined))
        if ended_in_return:
            ends.add(b"\r")
    except (OSError, EOFError) as error:
        raise InvalidArgument("files", InWords(f"{shown(file)} ({error})"), "be CSV in UTF-8") from None
    return len(ends) > 1


def _ends_in(block: bytes, *, skip: int) -> set[bytes]:
    """The line ends inside of a block: not a CR at its end, nor an LF at its beginning that belongs to a CR before."""
    if b"\r" not in block:
        return {b"\n"} if b"\n" in block[skip:] else set()
    both = block.count(b"\r\n")
    feeds = block.count(b"\n") - both - skip
    returns = block.count(b"\r") - both - block.endswith(b"\r")
    return {end for end, number in ((b"\r\n", both), (b"\n", feeds), (b"\r", returns)) if number > 0}


def _with_line_feeds(source: BinaryIO, target: BinaryIO, delimiter: str) -> None:
    """Copy, with every line end outside of quoted values an LF."""
    mark = re.escape(delimiter.encode())
    # A quote opens a value only where a value begins; elsewhere it is an ordinary character.
    token = re.compile(rb"(?:(?<=[\r\n])|(?<=" + mark + rb')|\A)"(?:[^"]++|"")*+(?:"|\Z)|\r\n?+|\n')
    with mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as content:
        end = 0
        for found in token.finditer(content):
            if found[0][:1] in (b"\r", b"\n"):
                target.write(content[end : found.start()] + b"\n")
                end = found.end()
        target.write(content[end:])
