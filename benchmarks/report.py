"""docs/internals/benchmarks.md and its figures, from the stored results: nothing here is measured or typed in.

python benchmarks/report.py         write the report again from benchmarks/results.json
"""

from __future__ import annotations

import csv
import io
import json
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import work
from outcomes import Outcome, error_ratio, judge, time_ratio

HERE = Path(__file__).resolve().parent
#: Where the report is, with its figures and every measurement.
FOLDER = HERE.parent / "docs" / "internals"
MEASUREMENTS = "benchmarks.csv"
#: What the field was promised, at the paper's setting: (setting, time ratio at least, error ratio at least).
PROMISES = (
    (work.PLD_DEFAULT, 1_000.0, 10_000.0),
    (work.PLD_MEDIUM, 100.0, 10_000.0),
    (work.PLD_COARSE, 100.0, 10_000.0),
)

SECTIONS = {
    "paper": "The paper's setting: q = 0.01, T = 2 000, delta = 1e-6",
    "fixed": "Fixed batches: 500 of 50 000, T = 2 000, delta = 1e-6",
    "replaced": "Examples replaced: q = 0.01, sigma = 1, T = 2 000, delta = 1e-6",
    "accuracy": "Time against accuracy: k = 1 with sigma = 1, and k = 9 with sigma = 4",
    "group size": "Large groups: sigma = 4, q = 0.01, T = 2 000, delta = 1e-6",
    "steps": "Many steps: k = 1, sigma = 1, q = 0.447 / sqrt(T), delta = 1e-6",
    "delta": "Small delta: sigma = 1, q = 0.01, T = 2 000",
    "schedule": "Schedules: phases with rates and noise of their own",
    "calibration": "Calibration: the least noise multiplier for a target epsilon",
    "corner": "Corner cases",
    "rare": "Rare sampling: sigma = 1, up to 10 000 steps",
    "few rounds": "Few rounds: sigma = 1, q = 0.01, delta = 1e-6",
    "allocation": "Random allocation of one example: delta = 1e-6, by direction",
    "mechanisms": "Other samplings and mechanisms: groupdp alone",
}


class Table:
    """All outcomes, by item and setting."""

    def __init__(self, results: dict[str, Any], truths: dict[str, Any], items: list[work.Item]) -> None:
        self.results, self.truths, self.items = results, truths, items

    def truth(self, item: work.Item) -> float | None:
        known = self.truths.get(work.key_of({**item, "question": "epsilon"}), {})
        if "epsilon" not in known:
            return None
        return float(item["phases"][0]["noise_multiplier"] if item["question"] == "noise" else known["epsilon"])

    def outcome(self, item: work.Item, setting: work.Setting) -> Outcome:
        answer = self.results["results"].get(result_key(item, setting))
        return judge(answer, claim=setting["claim"], truth=self.truth(item))

    def ours(self, item: work.Item) -> Outcome:
        return self.outcome(item, work.GROUPDP)

    def of_section(self, name: str) -> list[work.Item]:
        return [item for item in self.items if item["section"] == name]


def result_key(item: work.Item, setting: work.Setting) -> str:
    """The same question to the same tool at the same setting is asked once, whatever the section."""
    return f"{setting['tool']} | {setting['name']} | {work.key_of(item)}"


def write(results: dict[str, Any], truths: dict[str, Any], items: list[work.Item], folder: Path) -> None:
    import plots  # matplotlib is needed for nothing else

    table = Table(results, truths, items)
    (folder / "images").mkdir(parents=True, exist_ok=True)
    plots.draw(table, folder / "images")
    (folder / "benchmarks.md").write_text(text(table))
    (folder / MEASUREMENTS).write_text(measurements(table), encoding="utf-8")


def text(table: Table) -> str:
    parts = [
        _head(table),
        _summary(table),
        _not_ahead(table),
        _large(table),
        _figures(),
        _sections(table),
        _method(table),
        _of_tables(),
    ]
    return "\n".join(part.rstrip() + "\n" for part in parts if part)


def _head(table: Table) -> str:
    results = table.results
    machine = results["machine"]
    continued = f", continued {', '.join(results['started'][1:])}" if len(results["started"]) > 1 else ""
    finished = results.get("finished", "not finished")
    return f"""# Side by side with the field

Written by `make bench`; do not edit. Started {results["started"][0]}{continued}, finished {finished}.
{machine["processor"]}, {machine["cores"]} cores, {machine["system"]}, Python {machine["python"]}.
All measurements are in [{MEASUREMENTS}]({MEASUREMENTS}).

A peer's error is the distance of its answer from the truth, an independent oracle in ball arithmetic. groupdp's is its
certified width, an upper bound on the error. A ratio of 1 000 means that the peer took 1 000 times longer, or that its
error is 1 000 times groupdp's width.
{_later(results)}"""


def _later(results: dict[str, Any]) -> str:
    """Which sections were measured again after the whole run, and how busy the machine was."""
    measured = results.get("measured", {})
    if not measured:
        return ""
    parts = [f"{name} ({one['at']}, load {one['load']:.1f})" for name, one in measured.items()]
    return f"\nMeasured later, all tools side by side: {', '.join(parts)}. On two cores a load above 2 is busy.\n"


def _summary(table: Table) -> str:
    rows = []
    for setting in _settings(table.of_section("paper")):
        if setting == work.GROUPDP:
            continue
        items = [item for item in table.of_section("paper") if setting in item["settings"]]
        outcomes = [(table.outcome(item, setting), table.ours(item)) for item in items]
        times = [ratio for pair in outcomes if (ratio := time_ratio(*pair)) is not None]
        errors = [ratio for pair in outcomes if (ratio := error_ratio(*pair)) is not None]
        if times:
            rows.append([setting["tool"], setting["name"], str(len(items)), _range(times), _range(errors)])
    lines = ["## Summary", "", "At the paper's setting, smallest to largest ratio (median):", ""]
    lines += _markdown(["tool", "setting", "cases", "time ratio", "error ratio"], rows)
    lines += ["", "Goals, and the smallest ratio measured (for one example dp_accounting has a faster path):", ""]
    lines += _markdown(["dp_accounting PLD", "goal", "k > 1", "k = 1"], list(_promises(table)))
    lines += ["", *_width_line(table)]
    return "\n".join(lines) + "\n"


def _not_ahead(table: Table) -> str:
    """Every case in which a peer took less time, or was closer to the truth than groupdp's certified width."""
    rows = []
    for item in table.items:
        found = []
        for setting in item["settings"]:
            if setting["tool"] == "groupdp":
                continue
            outcome, ours = table.outcome(item, setting), table.ours(item)
            times, errors = time_ratio(outcome, ours), error_ratio(outcome, ours)
            if any(ratio is not None and ratio < 1.0 for ratio in (times, errors)):
                closer = f", error {errors:.2g}" if errors is not None and errors < 1.0 else ""
                found.append(f"{setting['tool']}, {setting['name']}: {times or 0.0:.2g}{closer}")
        if found:
            rows.append([f"{item['section']}: {item['label']}", "; ".join(found)])
    kinds = [(table.ours(item).kind, f"{item['section']}: {item['label']}") for item in table.items]
    failed = [case for kind, case in kinds if kind not in ("value", "missing")]
    missing = [case for kind, case in kinds if kind == "missing"]
    lines = ["## Where groupdp is not ahead", ""]
    if rows:
        lines += _markdown(["case", "tool, setting: time ratio"], rows)
    else:
        lines += ["In no case was a peer faster, or closer to the truth than groupdp's certified width."]
    if failed:
        lines += ["", f"Cases without a valid answer of groupdp: {'; '.join(failed)}."]
    if missing:
        lines += ["", f"Not measured: {'; '.join(missing)}."]
    return "\n".join(lines) + "\n"


def _large(table: Table) -> str:
    """The per-person view and sweeps (benchmarks/large.py), as they were last measured."""
    rows = [[one["what"], one["how"], one["at"], one["result"]] for one in table.results.get("large", [])]
    if not rows:
        return ""
    lines = ["## Large inputs", "", *_markdown(["what", "how", "measured on", "result"], rows)]
    lines += ["", "`make bench` measures the view; sweeps keep their last measurement unless `--sweep` asks for them."]
    return "\n".join(lines) + "\n"


def _promises(table: Table) -> Iterable[list[str]]:
    for setting, faster, tighter in PROMISES:
        for name, ratio, goal in (("time", time_ratio, faster), ("error", error_ratio, tighter)):
            cells = []
            for single in (False, True):
                found = [
                    value
                    for item in table.of_section("paper")
                    if setting in item["settings"] and (item["group_size"] == 1) == single
                    if (value := ratio(table.outcome(item, setting), table.ours(item))) is not None
                ]
                missed = " (missed)" if found and min(found) < goal else ""
                cells.append(_number(min(found)) + missed if found else "")
            if any(cells):
                yield [setting["name"], f"{name} ratio at least {_number(goal)}", *cells]


def _width_line(table: Table) -> list[str]:
    outcomes = [table.ours(item) for item in table.items if table.ours(item).kind != "missing"]
    violations = sum(outcome.kind == "violation" for outcome in outcomes)
    failures = sum(outcome.kind not in ("value", "violation") for outcome in outcomes)
    checked = sum(outcome.error is not None for outcome in outcomes)
    return [
        f"groupdp itself: {len(outcomes)} items, {checked} of them checked against the truth, {violations} outside "
        f"its own bounds, {failures} without an answer."
    ]


def _figures() -> str:
    return """## Figures

![Time against error](images/benchmark-time-error.svg)

![Time against group size](images/benchmark-time-groups.svg)

![Error against delta](images/benchmark-error-delta.svg)
"""


def _sections(table: Table) -> str:
    """Which peers gave answers that are not valid, and where."""
    bad: dict[tuple[str, str], list[str]] = {}
    for section, title in SECTIONS.items():
        items = table.of_section(section)
        for setting in _settings(items):
            outcomes = [table.outcome(item, setting) for item in items if setting in item["settings"]]
            kinds = _counted(outcome.kind for outcome in outcomes if outcome.kind not in ("value", "missing"))
            if setting["tool"] != "groupdp" and kinds != "none":
                where = f"{title.partition(':')[0]}: {kinds} of {len(outcomes)}"
                bad.setdefault((setting["tool"], setting["name"]), []).append(where)
    rows = [[*key, "; ".join(places)] for key, places in bad.items()]
    lines = ["## Answers that are not valid", "", *_markdown(["tool", "setting", "where"], rows)]
    return "\n".join(lines) + "\n"


def measurements(table: Table) -> str:
    """Every measurement as CSV: one row for each case and setting."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    header = ["section", "case", "note", "tool", "setting", "truth", "answer", "error", "width", "seconds"]
    writer.writerow([*header, "time_ratio", "error_ratio", "remark"])
    for section in SECTIONS:
        for item in table.of_section(section):
            for setting in item["settings"]:
                outcome, ours = table.outcome(item, setting), table.ours(item)
                is_ours = setting["tool"] == "groupdp"
                writer.writerow(
                    [
                        section,
                        item["label"],
                        item.get("note", ""),
                        setting["tool"],
                        setting["name"],
                        _optional(table.truth(item), ".12g"),
                        _optional(outcome.value, ".12g"),
                        _optional(outcome.error, ".1e"),
                        _optional(outcome.width, ".1e"),
                        _optional(outcome.seconds, ".3g"),
                        "" if setting == work.GROUPDP else _at_least(outcome) + _number(time_ratio(outcome, ours)),
                        "" if is_ours else _number(error_ratio(outcome, ours)),
                        _remark(outcome),
                    ]
                )
    return file.getvalue()


def _of_tables() -> str:
    """The benchmark of tables (benchmarks/data.py), as it was last written."""
    path = HERE / "data-report.md"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _method(table: Table) -> str:
    lines = [
        "## How it was measured",
        "",
        "- Every tool runs in a process of its own, imported and called once before anything is timed. Caches of "
        "groupdp are emptied before every call.",
        "- Times are medians of wall-clock times: of 101 calls below 0.01 s, of 15 below 0.1 s (both in five turns "
        f"with the other tools), of 5 below 1 s, of 3 below 5 s, of one beyond. {_limits(table)}",
        "- Peers use their fastest path: the subsampled Gaussian for one example, phases composed at once, "
        "probabilities computed before the clock starts. For groupdp everything is timed.",
        "- An answer below the truth from a tool that claims an upper bound is a violation. Settings for accuracy "
        "are the finest that end within the limit.",
        "- In calibrations the target is the true epsilon of a noise multiplier chosen beforehand.",
        "",
    ]
    versions = {f"{name} {version}" for tool in table.results["tools"].values() for name, version in tool.items()}
    lines += [f"Versions: {', '.join(sorted(versions))}."]
    return "\n".join(lines) + "\n"


def _limits(table: Table) -> str:
    """Which sections give a call how long."""
    sections: dict[float, list[str]] = {}
    for section, limit in table.results["limits"].items():
        sections.setdefault(limit, []).append(section)
    if len(sections) == 1:
        return f"A call is given {next(iter(sections)):g} s."
    return (
        "A call is given " + ", ".join(f"{limit:g} s ({', '.join(names)})" for limit, names in sections.items()) + "."
    )


def _settings(items: list[work.Item]) -> list[work.Setting]:
    """Distinct settings, in the order they first appear."""
    result: list[work.Setting] = []
    for item in items:
        result += [setting for setting in item["settings"] if setting not in result]
    return result


def _remark(outcome: Outcome) -> str:
    words: dict[str, Callable[[], str]] = {
        "value": lambda: outcome.message and f"warns: {outcome.message}",
        "violation": lambda: f"**violates the truth**: {outcome.message}",
        "infinite": lambda: "no finite answer" + (f": {outcome.message}" if outcome.message else ""),
        "timeout": lambda: f"timeout: {outcome.message}",
        "error": lambda: f"fails: {outcome.message}",
        "missing": lambda: "not run",
    }
    return words[outcome.kind]().replace("|", "/")


def _counted(kinds: Iterable[str]) -> str:
    found = list(kinds)
    return ", ".join(f"{found.count(kind)} {kind}" for kind in sorted(set(found))) or "none"


def _range(ratios: list[float]) -> str:
    if not ratios:
        return ""
    if len(ratios) == 1:
        return _number(ratios[0])
    return f"{_number(min(ratios))} to {_number(max(ratios))} ({_number(statistics.median(ratios))})"


def _number(value: float | None) -> str:
    """Two significant digits, rounded down: a ratio is not to be flattered."""
    if value is None:
        return ""
    if value <= 0.0:
        return "0"
    digits = f"{value:.17e}"
    rounded = float(digits[:3] + digits[digits.index("e") :])
    return f"{rounded:,.0f}".replace(",", " ") if 10.0 <= rounded < 1e7 else f"{rounded:.2g}"


def _at_least(outcome: Outcome) -> str:
    return "at least " if outcome.kind == "timeout" else ""


def _optional(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _markdown(header: list[str], rows: list[list[str]]) -> list[str]:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


if __name__ == "__main__":
    stored = json.loads((HERE / "results.json").read_text())
    known = json.loads((HERE / "truth.json").read_text())
    write(stored, known, work.items(), FOLDER)
