"""Which tools are there, what is said where one is missing, and that nothing is loaded before it is asked for."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from importlib import metadata

import pytest

import groupdp
from groupdp.integrations import require_package
from paths import ROOT

TOOLS = {"dp_accounting": "dp-accounting", "opacus": "opacus", "jax_privacy": "jax-privacy", "riskcal": "riskcal"}


@pytest.mark.skipif(os.environ.get("GROUPDP_TOOLS") != "all", reason="make test-integrations sets GROUPDP_TOOLS=all")
@pytest.mark.parametrize("name", [*TOOLS.values(), "torch", "jax"])
def test_the_real_tools_are_installed_as_pinned(name):
    pins = (ROOT / "constraints-integrations.txt").read_text().lower().replace("_", "-")
    pinned = re.search(rf"^{name}==(.+)$", pins, re.MULTILINE)
    assert pinned is not None
    assert metadata.version(name).split("+")[0] == pinned[1]


@pytest.mark.parametrize("extra", TOOLS)
def test_a_missing_tool_is_an_import_error_that_names_the_extra(extra):
    hide = f"import sys; sys.modules[{extra!r}] = None; import groupdp.integrations.{extra}"
    run = subprocess.run([sys.executable, "-c", hide], capture_output=True, text=True, check=False)
    last = run.stderr.strip().splitlines()[-1]
    assert run.returncode == 1
    assert last.startswith("ImportError: groupdp.integrations.")
    assert re.search(r"install groupdp with the extra '[\w-]+' \(groupdp\[[\w-]+\]\)", last)


def test_what_a_tool_itself_lacks_is_not_hidden(tmp_path, monkeypatch):
    (tmp_path / "half_a_tool.py").write_text("import no_such_module_anywhere\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_module_anywhere"):
        require_package("half_a_tool", extra="x", tool="X")
    with pytest.raises(ImportError, match=r"groupdp.integrations.x needs X: install groupdp with the extra 'x'"):
        require_package("no_such_tool_anywhere", extra="x", tool="X")


def test_nothing_is_loaded_before_it_is_asked_for():
    script = (
        "import sys, groupdp, groupdp.integrations, groupdp.integrations.tensorflow_privacy, "
        "groupdp.integrations.import_run; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "opacus", "jax", "jax_privacy", "dp_accounting", "riskcal", "tensorflow"} & set(loaded)


def test_the_map_of_the_package_is_complete():
    package = importlib.import_module("groupdp.integrations")
    described = set(re.findall(r"^    (\w+)\.py ", package.__doc__, re.MULTILINE))
    folder = ROOT / "src" / "groupdp" / "integrations"
    assert described == {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert groupdp.__version__


def test_a_version_without_the_module_is_said_to_be_one(tmp_path, monkeypatch):
    """JAX Privacy 2.2 has no jax_privacy.accounting: what is missing is named, not the whole tool."""
    (tmp_path / "toolwithout").mkdir()
    (tmp_path / "toolwithout" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match=r"this version of A Tool has no toolwithout\.accounting: use events\."):
        require_package("toolwithout.accounting", extra="tool", tool="A Tool", instead="use events")
    with pytest.raises(ImportError, match="needs A Tool: install"):
        require_package("toolmissing.accounting", extra="tool", tool="A Tool", instead="use events")
