"""Notebooks of docs/ as pages of the site: a hook of mkdocs that runs each one when the site is built.

A notebook is stored without outputs. The page shows every cell, and below it what the cell prints and the value that it
ends with. Links to the .ipynb file lead to the page.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def executed(path: Path) -> Iterator[tuple[str, str, str]]:
    """The kind, source and output of every cell; code cells run in order in one namespace."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] != "code":
            yield cell["cell_type"], source, ""
            continue
        assert not cell["outputs"], f"{path.name}, cell {number}: notebooks are stored without outputs"
        body = ast.parse(source).body
        last = body.pop() if isinstance(body[-1], ast.Expr) else None
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(ast.Module(body, []), f"cell {number}", "exec"), namespace)
            if last is not None:
                value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), namespace)
                if value is not None:
                    print(repr(value))
        yield "code", source, printed.getvalue().strip("\n")


def as_markdown(path: Path) -> str:
    """The notebook as a page."""
    parts = []
    for kind, source, output in executed(path):
        if kind == "code":
            parts.append(f"```python\n{source}\n```")
            if output:
                parts.append(f"```text\n{output}\n```")
        else:
            parts.append(source)
    return "\n\n".join(parts) + "\n"


def on_files(files: Any, *, config: Any) -> Any:
    """Called by mkdocs: one page for each notebook."""
    from mkdocs.structure.files import File

    for file in list(files):
        if file.src_uri.endswith(".ipynb"):
            page = file.src_uri.removesuffix(".ipynb") + ".md"
            files.append(File.generated(config, page, content=as_markdown(Path(file.abs_src_path))))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Called by mkdocs: links to a notebook lead to its page."""
    return re.sub(r"\]\(([\w/.-]+)\.ipynb\)", r"](\1.md)", markdown)
