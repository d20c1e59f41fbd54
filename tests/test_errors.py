"""An invalid argument carries its parts; its sentence is made from them in one place."""

from __future__ import annotations

import pickle

import pytest

from groupdp import DPSGD, InvalidArgument, LimitExceeded, PoissonSampling, epsilon
from groupdp.errors import NOT_SHOWN, InWords
from groupdp.run_file import parse_run_file


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (InvalidArgument("rate", 1.7, "be in (0, 1]"), "rate must be in (0, 1], got 1.7."),
        (InvalidArgument("rate", "x", "be a number"), "rate must be a number, got 'x'."),
        (InvalidArgument("run", InWords("several sources"), "have one"), "run must have one, got several sources."),
        (InvalidArgument("steps", NOT_SHOWN, "be given"), "steps must be given."),
        (
            InvalidArgument("steps", 3, "be 1", "others are not proved"),
            "steps must be 1, got 3: others are not proved.",
        ),
        (InvalidArgument("rate", 2, "be 1").about("sampling_rate"), "sampling_rate must be 1, got 2."),
        (InvalidArgument("rate", 2, "be 1").at("run.toml, line 3"), "run.toml, line 3: rate must be 1, got 2."),
        (InvalidArgument.saying("by", "by and counts exclude each other."), "by and counts exclude each other."),
        (InvalidArgument("size", NOT_SHOWN, "be given: how many?"), "size must be given: how many?"),
    ],
)
def test_the_sentence_of_its_parts(error, sentence):
    assert str(error) == sentence
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is InvalidArgument
    assert str(again) == sentence
    assert (again.argument, again.requirement, again.reason) == (error.argument, error.requirement, error.reason)


def test_an_error_of_the_library_says_which_argument_it_was():
    with pytest.raises(InvalidArgument) as caught:
        PoissonSampling(rate=1.7)
    assert (caught.value.argument, caught.value.value) == ("rate", 1.7)
    sources = DPSGD(PoissonSampling(rate=0.1), noise_multiplier=1.0, steps=3)
    with pytest.raises(InvalidArgument) as caught:
        epsilon(sources, delta=1e-6, group_size=-1)
    assert (caught.value.name, caught.value.value) == ("group_size", -1)


def test_what_cannot_be_shown_or_sent_is_refused_all_the_same():
    class Hostile:
        def __repr__(self) -> str:
            raise RuntimeError

    error = InvalidArgument("rate", Hostile(), "be a number")
    assert str(error) == "rate must be a number, got an object of type Hostile."
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert len(str(InvalidArgument("rate", "x" * 1000, "be a number"))) < 120


def test_a_run_file_names_its_own_key_and_the_line():
    text = """delta = 1e-6
[[phase]]
sampling = "poisson-sources"
sampling_rates = { web = 0.1, "" = 0.2 }
noise_multiplier = 1.0
steps = 3
"""
    with pytest.raises(InvalidArgument) as caught:
        parse_run_file(text, name="run.toml")
    assert caught.value.name == "sampling_rates"
    assert str(caught.value).startswith("run.toml, line 4: sampling_rates")


def test_limits_are_errors_of_their_own():
    assert not issubclass(LimitExceeded, InvalidArgument)
    assert str(LimitExceeded("a limit is met.")) == "a limit is met."
