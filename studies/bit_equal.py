"""Two trees of groupdp answer the same questions: every bound must be the same double, every refusal of one kind.

    python studies/bit_equal.py OLD_PYTHON NEW_PYTHON [--questions 10000] [--seed 1]

asks the golden tables and random questions (samplings, adjacencies, phases, both directions of the question) with the
two interpreters, each with its own groupdp, and prints what differs. A question is a Python expression over the public
names, so that both trees read the same text.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import subprocess
import sys
import time
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "tests" / "golden"
#: Share of the questions about other mechanisms, other functions and the lattice.
WIDER = 0.2
ADJACENCIES = ("add-or-remove", "add", "remove", "substitute", "zero-out", "add-and-remove")


def golden() -> list[str]:
    """The runs of the golden tables, in both orders."""
    questions = []
    for name in ("epsilon", "one_round_delta", "oracle_cases"):
        tables = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
        for case in (*tables["cases"], *tables.get("log_deltas", ())):
            phases = [_golden_phase({**case, **phase}) for phase in case.get("phases", (case,))]
            run = f"[{', '.join(phases)}]"
            asked = f"delta={case['delta']}" if "delta" in case else f"epsilon={case['epsilon']}"
            function = "epsilon" if "delta" in case else "log_delta"
            questions += (
                f"{function}({run}, {asked}, group_size={case['group_size']}, adjacency={order!r}, engine='spectral')"
                for order in ("add", "remove")
            )
    return questions


def _golden_phase(case: dict[str, str]) -> str:
    if case["sampling"] == "poisson":
        sampling = f"PoissonSampling(rate={case['sampling_rate']})"
    else:
        sampling = f"FixedBatchSampling(batch_size={case['batch_size']}, dataset_size={case['dataset_size']})"
    return f"DPSGD({sampling}, noise_multiplier={case['noise_multiplier']}, steps={case['steps']})"


def drawn(number: int, seed: int) -> list[str]:
    """Random questions: small ones of every kind, so that thousands take minutes."""
    generator = random.Random(seed)
    return [(_wider if generator.random() < WIDER else _question)(generator) for _ in range(number)]


def _question(generator: random.Random) -> str:
    phases = [_phase(generator) for _ in range(generator.choice((1, 1, 1, 2, 3)))]
    run = phases[0] if len(phases) == 1 else f"[{', '.join(phases)}]"
    if generator.random() < 0.1:
        removed, added = generator.randrange(4), generator.randrange(4)
        group = f"removed={removed}, added={added}"
    else:
        size = generator.choice((0, 1, 1, 2, 3, 4, 8, 9, 16))
        adjacency = generator.choice((*ADJACENCIES[:1] * 4, *ADJACENCIES))
        group = f"group_size={size}, adjacency={adjacency!r}"
    # a lattice takes seconds, a contour milliseconds: few questions are left to the choice of an engine
    group += "" if generator.random() < 0.01 else ", engine='spectral'"
    if generator.random() < 0.6:
        return f"epsilon({run}, delta=1e-{generator.randrange(1, 13)}, {group})"
    return f"log_delta({run}, epsilon={generator.choice((0.0, 0.5, 1.0, 3.0, 10.0))}, {group})"


def _wider(generator: random.Random) -> str:
    """Other mechanisms and samplings, other functions, and the lattice: questions of up to a second."""
    uniform, choice = generator.uniform, generator.choice
    noise = round(10.0 ** uniform(-0.2, 1.0), 3)
    size = choice((1, 1, 2, 3, 8))
    group = f"group_size={size}, adjacency={choice(ADJACENCIES)!r}"
    asked = choice((f"delta=1e-{generator.randrange(1, 13)}", "epsilon=1.0"))
    function = "epsilon" if asked.startswith("delta") else "log_delta"
    poisson = f"DPSGD(PoissonSampling(rate={round(uniform(0.001, 1.0), 4)}), noise_multiplier={noise}, steps=%s)"
    batches = generator.randrange(2, 40)
    spread = choice(
        (
            f"AllocationSampling(batches={batches}, participations={generator.randrange(1, batches)})",
            f"BallsInBinsSampling(batches={batches})",
            f"SpreadSampling(batches={batches}, evenly={choice((True, False))})",
        )
    )
    releases = f"releases={choice((1, 1, 2, 20))}, per_person={choice((True, False))}"
    strategy = choice(("PrefixSum()", "BandedToeplitz((1.0, 0.5, 0.25))", "Tree()"))
    when = choice(("MinimumSeparation(separation=8, participations=3)", "FixedEpochs(batches=8)"))
    noisy = f"noise_multiplier={noise}, steps=24, normalisation='unit-columns'"
    mechanism = choice(
        (
            f"GaussianRelease({noise}, {releases})",
            f"LaplaceRelease({noise}, {releases})",
            f"DiscreteGaussianRelease({noise}, {releases})",
            f"ApproximateDP(0.5, 1e-9, {releases})",
            f"DPSGD({spread}, noise_multiplier={noise}, steps={batches * choice((1, 2, 5))})",
            f"correlated.CorrelatedNoise(correlated.{strategy}, correlated.{when}, {noisy})",
        )
    )
    few = poisson % choice((1, 2, 3, 10, 30))
    many = poisson % choice((1, 100, 1000))
    plain = f"group_size={size}"
    mixture = f"MixtureOfGaussians((0.0, 1.0, 2.0), (0.5, 0.3, 0.2), {noise})"
    sources = f"DPSGD(PoissonSources(rates={{'a': 0.01, 'b': 0.05}}), noise_multiplier={noise}, steps=100)"
    return choice(
        (
            *(f"{function}({mechanism}, {asked}, {group})",) * 8,
            f"{function}({few}, {asked}, {group}, engine='lattice')",
            f"{function}({mixture}, {asked}, adjacency={choice(ADJACENCIES)!r}, rounds={choice((1, 3, 100))})",
            f"{function}({sources}, {asked}, group_size={{'a': {size}, 'b': 1}})",
            f"{function}([{few}, {mechanism}], {asked}, {group})",
            f"trade_off({many}, {group}).curve([1e-9, 0.01, 0.3, 0.7])",
            f"risk({many}, {group})",
            f"PrivacyLossDistribution.from_run({few}, group_size={size}, grid_step=0.01).epsilon(1e-5)",
            f"linear_reference({many}, delta=1e-6, {plain})",
            f"vadhan_epsilon({many}, delta=1e-6, {plain})",
            f"renyi_vadhan_epsilon({many}, delta=1e-6, {plain})",
            f"fdp_epsilon({many}, delta=1e-6, {plain})",
            f"filter_epsilon({many}, delta=1e-6, {plain})",
            f"tuned_epsilon({many}, delta=1e-6, mean_trials=10.0, {plain})",
            f"calibrate_noise({many}, epsilon=2.0, delta=1e-6, {plain}, tolerance=1e-3)",
        )
    )


def _phase(generator: random.Random) -> str:
    noise = 0.0 if generator.random() < 0.03 else round(10.0 ** generator.uniform(-0.3, 1.3), 3)
    steps = round(10.0 ** generator.uniform(0.0, 4.0))
    batch, data = generator.choice((10, 100, 500)), generator.choice((1_000, 50_000))
    sizes = f"batch_size={batch}, dataset_size={data}"
    kinds = [f"PoissonSampling(rate={round(10.0 ** generator.uniform(-4.0, 0.0), 6)})"] * 5
    kinds += [f"FixedBatchSampling({sizes})"] * 2
    kinds += [f"ShuffledSampling({sizes})", f"ShuffledOnceSampling({sizes})", f"FixedOrderSampling({sizes})"]
    kinds += [f"TruncatedPoissonSampling(rate=0.01, largest_batch={batch}, dataset_size={data})"]
    micro = ", microbatch_size=2" if generator.random() < 0.1 else ""
    return f"DPSGD({generator.choice(kinds)}, noise_multiplier={noise}, steps={steps}{micro})"


def answer() -> None:
    """Read questions, one a line; write the bounds in hexadecimal, or the refusal, one a line."""
    import groupdp

    names = {name: getattr(groupdp, name) for name in (*groupdp.__all__, "correlated")}
    for line in sys.stdin:
        try:
            words = ["answer", *_spelled(eval(line, names))]
        except groupdp.GroupDPError as error:
            words = [type(error).__name__, str(error)]
        print(json.dumps(words), flush=True)


def _spelled(found: object) -> list[str]:
    """Every number of an answer, to the last bit."""
    if isinstance(found, float):
        return [found.hex()]
    if hasattr(found, "tolist"):
        return _spelled(found.tolist())
    if isinstance(found, list | tuple):
        return [word for one in found for word in _spelled(one)]
    if isinstance(found, int | str | None):
        return [repr(found)]
    if hasattr(found, "tight") and hasattr(found, "upper"):
        return [found.lower.hex(), found.upper.hex(), str(found.tight)]
    if dataclasses.is_dataclass(found):
        return [word for field in dataclasses.fields(found) for word in _spelled(getattr(found, field.name))]
    return []


def asked(interpreter: str, questions: list[str]) -> list[list[str]]:
    """What the tree of an interpreter answers."""
    began = time.monotonic()
    done = subprocess.run(
        [interpreter, __file__, "--answer"],
        input="\n".join(questions) + "\n",
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"{interpreter} failed:\n{done.stderr}")
    print(f"{interpreter}: {len(questions)} answers in {time.monotonic() - began:.0f} s")
    return [json.loads(line) for line in done.stdout.splitlines()]


def main() -> None:
    """Compare two trees."""
    if sys.argv[1:] == ["--answer"]:
        answer()
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--questions", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    questions = [*golden(), *drawn(options.questions, options.seed)]
    old, new = (asked(interpreter, questions) for interpreter in (options.old, options.new))
    bounds = reworded = different = 0
    for question, first, second in zip(questions, old, new, strict=True):
        bounds += first[0] == "answer"
        if first == second:
            continue
        if first[0] == second[0] != "answer":
            reworded += 1
            continue
        different += 1
        print(f"{question}\n  old {first}\n  new {second}")
    print(f"{len(questions)} questions, {bounds} bounds: {different} differ; {reworded} refusals are reworded")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
