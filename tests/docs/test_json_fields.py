"""What the pages say of JSON answers, keys and digits is so."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest

import groupdp as library
from command_line import groupdp
from paths import ROOT

RUN = "--sampling-rate 0.01 --noise-multiplier 2 --steps 500"
LINES = {
    "epsilon": f"epsilon {RUN} --delta 1e-6 --group-size 3",
    "delta": f"delta {RUN} --epsilon 2 --group-size 3",
    "curve": f"curve {RUN} --delta 1e-6 --group-sizes 1:2",
    "calibrate": f"calibrate noise {RUN} --delta 1e-6 --epsilon 8 --group-size 3",
    "bands": "bands --bands 1,2 --sampling-rate 0.01 --steps 50 --noise-multiplier 2 --normalisation unit-columns "
    "--assigned person --delta 1e-6 --group-size 3 --epsilon 8",
    "ledger": "ledger show",
    "sweep": f"sweep {RUN} --delta 1e-6 --vary group_size=1,2",
    "tradeoff": f"tradeoff {RUN} --group-size 3 --rates 0.1",
    "statement --short": f"statement --short {RUN} --delta 1e-6 --group-size 3",
    "spend": f"spend {RUN} --delta 1e-6 --group-size 3 --target 8",
    "people": f"people counts.csv --counts n {RUN} --delta 1e-6",
    "cap": "cap counts.csv --counts n --epsilon 8 --delta 1e-3 --batch-size 1 --epochs 5 --minimum-share 0.6",
    "plan": "plan counts.csv --counts n --epsilon 8 --delta 1e-3 --batch-size 1 --epochs 5 --ways examples",
    "count": "count rows.csv --by user_id",
    "bound": "bound rows.csv --by user_id --at-most 2 --out bounded.csv",
    "doctor": "doctor log.csv --sampling fixed-order --batch-size 2 --dataset-size 4",
    "audit": "audit worst-case --sampling-rate 0.1 --noise-multiplier 2 --steps 5 --group-size 2 --trials 500",
    "certify": f"certify {RUN} --delta 1e-6 --group-size 0",
    "verify": "verify claim.json",
}
#: What most answers have, and the table does not repeat.
COMMON = {"version", "delta", "group_size", "adjacency", "run", "tight", "add", "remove"}


def _keys(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*map(_keys, value.values()))
    return set().union(*map(_keys, value)) if isinstance(value, list) else set()


def _documented() -> dict[str, set[str]]:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    table = text.partition("| command | answer |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `([a-z-]+(?: --short)?)` \| (.*) \|$", table, flags=re.MULTILINE)
    return {command: set(re.findall(r"`([a-z_0-9]+)`", said)) for command, said in rows}


@pytest.mark.parametrize("command", LINES)
def test_the_fields_of_an_answer_are_those_named(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if command in ("certify", "verify"):
        pytest.importorskip("flint")
    if command in ("count", "bound", "doctor"):
        pytest.importorskip("duckdb")
    monkeypatch.chdir(tmp_path)
    Path("counts.csv").write_text("n\n1\n2\n2\n")
    Path("log.csv").write_text("step,index\n" + "".join(f"{n // 2},{n % 4}\n" for n in range(8)))
    Path("rows.csv").write_text("user_id,x\n" + "".join(f"u{i % 5},{i}\n" for i in range(20)))
    if command == "ledger":
        assert groupdp("ledger new --delta 1e-6").status == 0
        assert groupdp(f"ledger add {RUN} --group-size 3").status == 0
    if command == "verify":
        groupdp(f"{LINES['certify']} --out claim.json")
    answer = groupdp(f"{LINES[command]} --json").json
    named = _documented()[command]
    assert named - _keys(answer) == set()
    assert set(answer) - named - COMMON == set()


def test_every_command_is_in_the_table_and_all_but_serve_take_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "dumb")
    listed = groupdp("--help").output.partition("╰")[2]  # what follows the options
    commands = set(re.findall(r"^\W*([a-z]+(?:-[a-z]+)?)  +[A-Za-z]", listed, flags=re.MULTILINE))
    assert {row for row in _documented() if " " not in row} == commands - {"serve"}
    for command in commands - {"calibrate", "audit", "ledger"}:
        assert ("--json" in groupdp(f"{command} --help").output) == (command != "serve")


def test_the_delta_of_the_python_reference_is_below_the_smallest_double() -> None:
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    (epsilon,) = re.findall(r"groupdp\.log_delta\(run, epsilon=([0-9.]+), group_size=9\) +# .*below the smallest", text)
    run = library.DPSGD(sampling=library.PoissonSampling(rate=0.01), noise_multiplier=1.0, steps=2000)
    assert library.log_delta(run, epsilon=float(epsilon), group_size=9).upper < math.log(5e-324)


def test_the_example_names_the_page_that_explains_its_keys() -> None:
    example = ROOT / "examples" / "run.toml"
    (page,) = re.findall(r"Every key is explained in (docs/[a-z-]+\.md)", example.read_text(encoding="utf-8"))
    keys = re.findall(r"^([a-z_]+) =", example.read_text(encoding="utf-8"), flags=re.MULTILINE)
    explained = re.findall(r"`([a-z_]+)`", (ROOT / page).read_text(encoding="utf-8"))
    assert len(keys) > 6
    assert set(keys) - set(explained) == set()
