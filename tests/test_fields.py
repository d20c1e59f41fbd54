"""A sampling or a mechanism from outside of the package is offered everywhere by its declared fields alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import pytest

import groupdp
from command_line import groupdp as command
from groupdp import mechanisms, samplings
from groupdp import web as form
from groupdp.errors import InvalidArgument
from groupdp.fields import Field, Slider
from groupdp.mechanisms import Mechanism
from groupdp.mechanisms.named_values import phase_of
from groupdp.pairs import ZERO, Round, Side
from groupdp.run_file import parse_run_file
from groupdp.samplings import PoissonSampling, Sampling
from groupdp.web import answers, openapi
from paths import ROOT

HALVES = Field(
    name="halvings",
    unit="times",
    meaning="How often the rate of one half is halved again.",
    kind="integer",
    at_least=0,
    at_most=50,
    slider=Slider(start=2, low=0, high=50, logarithmic=False),
)
SHIFT = Field(
    name="shift_ratio",
    attribute="shift",
    unit="× noise",
    meaning="How far one example moves the statistic.",
    kind="number",
    above=0.0,
    slider=Slider(start=0.5, low=0.01, high=10.0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HalvedSampling(Sampling):
    """Poisson sampling with a rate of 2^-(1 + halvings)."""

    halvings: int

    name: ClassVar[str] = "halved"
    title: ClassVar[str] = "a halved rate"
    meaning: ClassVar[str] = "Every example joins with probability 2^-(1 + halvings)."
    fields: ClassVar[tuple[Field, ...]] = (HALVES,)
    meant_by: ClassVar[str] = "halvings"
    adjacencies: ClassVar[tuple[str, ...]] = PoissonSampling.adjacencies

    @property
    def poisson(self) -> PoissonSampling:
        return PoissonSampling(rate=2.0 ** -(1 + self.halvings))

    def rounds(self, change, *, noise, steps, microbatches):
        return self.poisson.rounds(change, noise=noise, steps=steps, microbatches=microbatches)

    def is_tight(self, change, *, steps):
        return True

    def assumptions(self, *, microbatches):
        return ("Every step includes each example with the halved probability.",)

    def share_of_data(self):
        return Fraction(1, 2 ** (1 + self.halvings))

    def sampled_batches(self, generator, *, trials, dataset_size):
        return self.poisson.sampled_batches(generator, trials=trials, dataset_size=dataset_size)

    def audited_datasets(self, change, *, ordinary_examples):
        return self.poisson.audited_datasets(change, ordinary_examples=ordinary_examples)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShiftedRelease(Mechanism):
    """One Gaussian release with a stated shift for each example."""

    shift: float

    name: ClassVar[str] = "shifted"
    title: ClassVar[str] = "a shifted release"
    meaning: ClassVar[str] = "One number with Gaussian noise."
    fields: ClassVar[tuple[Field, ...]] = (SHIFT,)

    def __post_init__(self) -> None:
        if not self.shift < 100:
            raise InvalidArgument("shift", self.shift, "be below 100")

    def rounds(self, change):
        return ((Round.of(Side.point(self.shift * (change.removed + change.added)), ZERO), 1),)

    def is_tight(self, change):
        return True

    def assumptions(self):
        return ("One example moves the statistic by at most the stated shift.",)


@pytest.fixture
def toys():
    samplings.register(HalvedSampling)
    mechanisms.register(ShiftedRelease)
    yield
    del samplings.SAMPLINGS["halved"], mechanisms.MECHANISMS["shifted"]


SAMPLED = {"sampling": "halved", "halvings": 3, "noise_multiplier": 2.0, "steps": 10}
SHIFTED = {"mechanism": "shifted", "shift_ratio": 0.5}
POISSON = groupdp.DPSGD(PoissonSampling(rate=1 / 16), noise_multiplier=2.0, steps=10)
GAUSSIAN = groupdp.GaussianRelease(2.0)
CASES = pytest.mark.parametrize(
    ("values", "line", "same"),
    [
        (SAMPLED, "--sampling halved --halvings 3 --noise-multiplier 2 --steps 10", POISSON),
        (SHIFTED, "--mechanism shifted --shift-ratio 0.5", GAUSSIAN),
    ],
    ids=["sampling", "mechanism"],
)


@CASES
def test_a_toy_has_an_option(toys, values, line, same):
    found = command(f"epsilon {line} --delta 1e-6 --group-size 3 --json").json
    expected = groupdp.epsilon(same, delta=1e-6, group_size=3)
    assert (found["epsilon"]["lower"], found["epsilon"]["upper"]) == (expected.lower, expected.upper)
    assert {**values, **found["run"]} == found["run"]
    option = "--halvings" if "halvings" in values else "--shift-ratio"
    assert option in command("epsilon --help").output
    assert option in command("curve --help").output


@CASES
def test_a_toy_has_a_run_file_key(toys, values, line, same, tmp_path):
    path = tmp_path / "run.toml"
    assert command(f"epsilon {line} --delta 1e-6 --group-size 3 --save {path}").status == 0
    (phase,) = parse_run_file(path.read_text(encoding="utf-8")).phases
    assert phase == phase_of(values)
    assert {**phase.stated(), **values} == phase.stated()
    other = "halvings" if "halvings" in values else "shift_ratio"
    found = command(f"epsilon {path} --{other.replace('_', '-')} 1 --json").json
    assert found["run"][other] == 1
    statement = command(f"statement {path} --format text")
    assert statement.status == 0
    assert ("halved rate" in statement.output) == ("halvings" in values)


@CASES
def test_a_toy_has_a_form_field_and_an_openapi_entry(toys, values, line, same):
    described = form.as_json()
    group, name = ("samplings", "halvings") if "halvings" in values else ("mechanisms", "shift_ratio")
    (kind,) = [one for one in described[group] if one["name"] in values.values()]
    assert kind["meaning"].endswith(".")
    assert "add-or-remove" in kind["adjacencies"]
    assert name in described["fields"]
    assert (
        described["fields"][name]["meaning"]
        in openapi.description()["components"]["schemas"]["Phase"]["properties"][name]["description"]
    )
    document = {"phases": [values], "delta": 1e-6, "group_size": 3}
    found = answers.epsilon(document, lambda _: None)
    assert found["epsilon"]["upper"] == groupdp.epsilon(same, delta=1e-6, group_size=3).upper
    taken = answers.handover(document, lambda _: None)
    assert f"--{name.replace('_', '-')}" in taken["command"]


def test_values_out_of_range_are_refused_by_the_name_of_the_field(toys):
    for values, argument, value in (
        ({**SAMPLED, "halvings": 51}, "halvings", 51),
        ({**SHIFTED, "shift_ratio": 0.0}, "shift_ratio", 0.0),
        ({**SHIFTED, "shift_ratio": 200.0}, "shift_ratio", 200.0),  # refused by the class, as its attribute
    ):
        with pytest.raises(InvalidArgument) as refused:
            phase_of(values)
        assert (refused.value.argument, refused.value.value) == (argument, value)
    with pytest.raises(InvalidArgument) as missing:
        phase_of({"mechanism": "shifted"})
    assert missing.value.argument == "shift_ratio"
    with pytest.raises(InvalidArgument) as unknown:
        phase_of({**SHIFTED, "steps": 3})
    assert unknown.value.argument == "steps"


def test_toys_compose_with_other_mechanisms(toys):
    run = [phase_of(SAMPLED), phase_of(SHIFTED)]
    alike = [POISSON, GAUSSIAN]
    assert groupdp.epsilon(run, delta=1e-6, group_size=2) == groupdp.epsilon(alike, delta=1e-6, group_size=2)
    assert math.isfinite(groupdp.epsilon(run, delta=1e-6, group_size=2).upper)


def test_what_is_not_registered_is_offered_nowhere():
    assert "--halvings" not in command("epsilon --help").output
    with pytest.raises(InvalidArgument) as refused:
        phase_of(SAMPLED)
    assert refused.value.argument == "sampling"


def test_names_that_mean_something_else_are_refused(toys):
    class Poisson(HalvedSampling):
        name: ClassVar[str] = "poisson"

    class Delta(HalvedSampling):
        name: ClassVar[str] = "other"
        fields: ClassVar[tuple[Field, ...]] = (
            Field(name="delta", unit="", meaning="Taken.", kind="number", slider=Slider(start=1.0)),
        )

    class Flag(HalvedSampling):
        name: ClassVar[str] = "another"
        fields: ClassVar[tuple[Field, ...]] = (
            Field(name="batches", unit="", meaning="Taken.", kind="flag", slider=Slider(start=False)),
        )

    for kind, argument in ((Poisson, "name"), (Delta, "field"), (Flag, "field")):
        with pytest.raises(InvalidArgument) as refused:
            samplings.register(kind)
        assert refused.value.argument == argument
    assert samplings.SAMPLINGS["poisson"] is PoissonSampling
    with pytest.raises(InvalidArgument) as odd:
        Field(name="Not A Name", unit="", meaning="", kind="number", slider=Slider(start=1.0))
    assert odd.value.argument == "name"


@pytest.mark.parametrize(("name", "most"), [("balls-in-bins", 3), ("zero-out", 5)])
def test_a_sampling_and_an_adjacency_are_named_in_few_files(name, most):
    files = [
        path
        for path in (ROOT / "src").rglob("*")
        if path.suffix in (".py", ".js", ".html", ".c") and name in path.read_text(encoding="utf-8")
    ]
    assert 1 <= len(files) <= most, [str(path.relative_to(ROOT)) for path in files]
