"""The privacy statement: its numbers are upper bounds, rounded up, and it says what it assumes."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from decimal import Decimal

import pytest

import groupdp
from groupdp import statement as formats
from groupdp._version import VERSION
from groupdp.run_file import parse_run_file
from groupdp.statement import make_statement
from groupdp.statement import text as statement
from groupdp.statement.text import DIGITS, _factor, explain
from refusals import refused

TWO_PHASES = """
title = "Two phases"
delta = 1e-6
group_size = 4
[[phase]]
sampling = "poisson"
sampling_rate = 0.01
noise_multiplier = 2.0
steps = 500
[[phase]]
sampling = "fixed-batch"
batch_size = 100
dataset_size = 10000
noise_multiplier = 5.0
epochs = 3
"""


@pytest.fixture(scope="module")
def made():
    return make_statement(parse_run_file(TWO_PHASES))


def test_the_guarantee_is_the_run_s_upper_bound_rounded_up(made):
    exact = groupdp.epsilon(list(made.run.phases), delta=1e-6, group_size=4)
    assert made.epsilon.intersects(exact)
    (stated,) = re.findall(r"epsilon = ([0-9.]+) and delta = 1e-06", statement.guarantee(made))
    assert Decimal(made.epsilon.upper) <= Decimal(stated) < Decimal(made.epsilon.upper) * Decimal("1.0002")


@pytest.mark.parametrize("render", [formats.as_markdown, formats.as_text])
def test_it_says_what_a_reviewer_asks(made, render):
    text = " ".join(render(made).split())
    for wanted in (
        "Two phases",
        "any group of up to 4 examples",
        "add-or-remove adjacency",
        "at most 4 examples",
        "No person has more than 4 examples",
        "independently with the stated probability",
        "a new batch of the stated size, uniformly at random and without replacement",
        "at least 10 000 examples",
        "clipped to the clipping norm on its own",
        "Every iterate may be released",
        f"groupdp {VERSION}",
        "Vadhan's lemma",
        "Poisson sampling, sampling rate 0.01",
        "fixed-size batches, batch size 100, dataset size 10 000",
        "300",
    ):
        assert wanted in text, wanted
    assert "microbatch" not in text.lower()


def test_every_epsilon_in_the_words_is_rounded_up(made):
    text = statement.method(made) + statement.old_analysis(made)
    for value in (made.changes["add"].upper, made.changes["remove"].upper, made.one_example.upper, made.vadhan.upper):
        digits = groupdp.bounds.round_up(value, DIGITS)
        assert digits in text
        assert Decimal(digits) >= Decimal(value)


def test_text_fits_in_80_columns(made):
    assert max(len(line) for line in formats.as_text(made).splitlines()) <= 80


def test_json_is_complete(made):
    answer = json.loads(json.dumps(formats.as_json(made)))
    assert answer["epsilon"] == {"lower": made.epsilon.lower, "upper": made.epsilon.upper}
    assert answer["add"]["upper"] <= answer["epsilon"]["upper"]
    assert [phase["steps"] for phase in answer["phases"]] == [500, 300]
    assert answer["old_analysis"]["old_tool"] > answer["epsilon"]["upper"]
    assert len(answer["assumptions"]) >= 6


def test_microbatching_is_said_and_doubles_the_sensitivity():
    text = TWO_PHASES.replace("steps = 500", "steps = 500\nmicrobatch_size = 8")
    made = make_statement(parse_run_file(text))
    said = formats.as_markdown(made)
    assert "microbatches of 8" in said
    assert "the sensitivity is doubled" in said
    assert "Some loss and some dataset attain this value" not in said
    halved = parse_run_file(TWO_PHASES.replace("noise_multiplier = 2.0", "noise_multiplier = 1.0"))
    same = groupdp.epsilon(list(halved.phases), delta=1e-6, group_size=4)
    assert made.epsilon.intersects(same)


def test_one_direction_is_described_as_such():
    text = TWO_PHASES.replace("group_size = 4", 'group_size = 1\nadjacency = "remove"')
    made = make_statement(parse_run_file(text))
    assert made.changes == {}
    said = formats.as_markdown(made)
    assert "the first is the second plus at most 1 example," in said
    assert "for one example under remove adjacency" in said


def test_no_privacy_is_said_plainly():
    text = TWO_PHASES.rpartition("[[phase]]")[0].replace("= 2.0", "= 0").replace("steps = 500", "steps = 1")
    made = make_statement(parse_run_file(text))
    said = formats.as_markdown(made)
    assert "No finite epsilon protects" in said
    assert "inf " not in said
    assert "differentially private for" not in said


def test_the_old_tool_s_infinity_is_explained():
    text = """
delta = 1e-6
group_size = 9
[[phase]]
sampling = "poisson"
sampling_rate = 0.01
noise_multiplier = 1
steps = 2000
"""
    made = make_statement(parse_run_file(text))
    assert "epsilon = infinity, because an intermediate delta underflows" in formats.as_markdown(made)
    assert "epsilon = 40.8011 and" in statement.guarantee(made)  # 40.80104..., rounded up


def test_the_old_tool_s_infinity_without_noise_has_another_reason():
    text = """
delta = 1e-6
group_size = 2
[[phase]]
sampling = "poisson"
sampling_rate = 0.01
noise_multiplier = 0
steps = 20
"""
    said = formats.as_markdown(make_statement(parse_run_file(text)))
    assert "epsilon = infinity, because without noise Renyi divergences are infinite." in said
    assert "underflows" not in said


@pytest.mark.parametrize("adjacency", ["add-or-remove", "zero-out"])
def test_where_more_examples_may_leak_more_the_dataset_size_is_exact(adjacency):
    """docs/internals/laws.md, P-6: epsilon is not monotone in the size of the dataset without the group."""
    text = f"""
delta = 1e-6
group_size = 3
adjacency = "{adjacency}"
[[phase]]
sampling = "truncated-poisson"
sampling_rate = 0.01
largest_batch = 600
dataset_size = 50000
noise_multiplier = 2.0
steps = 100
"""
    said = statement.assumptions(parse_run_file(text))
    sizes = [sentence for sentence in said if "50000" in sentence]
    assert sizes == ["The dataset without the group has exactly 50000 examples, and its size is public."]
    assert not any("at least" in sentence or "Either dataset" in sentence for sentence in said)


@pytest.mark.parametrize(
    ("removed", "added", "words"),
    [(2, 1, "2 examples that leave while 1 example joins"), (1, 2, "1 example that leaves while 2 examples join")],
)
def test_an_exchange_is_told_in_the_right_number(removed, added, words):
    text = TWO_PHASES.partition('[[phase]]\nsampling = "fixed')[0]
    text = text.replace("group_size = 4", f"removed = {removed}\nadded = {added}")
    assert words in statement.guarantee(make_statement(parse_run_file(text)))


def test_latex_needs_no_package_and_escapes_what_is_special(made):
    title = "title = 'R&D_100% {x} $5 #1 a^b ~c \\d <e>'"
    odd = make_statement(parse_run_file(TWO_PHASES.replace('title = "Two phases"', title)))
    text = formats.as_latex(odd)
    assert r"R\&D\_100\% \{x\} \$5 \#1 a\textasciicircum{}b \textasciitilde{}c \textbackslash{}d $<$e$>$" in text
    for made_statement in (made, odd):
        text = formats.as_latex(made_statement)
        assert "usepackage" not in text
        for environment in re.findall(r"\\begin\{(\w+)\}", text):
            assert text.count(rf"\begin{{{environment}}}") == text.count(rf"\end{{{environment}}}")
        bare = re.sub(r"\\[&%$#_{}]", "", text)  # what is left of braces and dollars must pair up
        assert bare.count("{") == bare.count("}")
        assert bare.count("$") % 2 == 0
        outside_table = re.sub(r"(?s)\\begin\{tabular\}.*?\\end\{tabular\}", "", bare)
        outside_formulas = re.sub(r"\$[^$]*\$", "", outside_table)
        assert not re.search(r"[&%#_^~]", outside_formulas.replace(r"\textasciitilde", ""))
    exact = statement.rounded(made.epsilon.upper)
    text = formats.as_latex(made)
    assert rf"$\varepsilon = {exact}$" in text
    assert r"$\delta = 10^{-6}$" in text
    assert not re.search(r"\bepsilon\b|(?<!\\)\bdelta\b|\de-0", text)


def test_a_product_is_set_as_one_in_latex(made):
    assert r"(noise multiplier $\times$ clipping norm)" in formats.as_latex(made)


def test_markdown_escapes_what_is_special_and_nothing_else(made):
    assert "\\" not in formats.as_markdown(made)
    text = """
title = 'R*D | [x](y) <b> &amp; _a_ b_c'
delta = 1e-6
group_size = { "we_b|x" = 1, "_b_" = 2 }
[[phase]]
sampling = "poisson-sources"
sampling_rates = { "we_b|x" = 0.01, "_b_" = 0.02 }
noise_multiplier = 1.0
steps = 200
"""
    said = formats.as_markdown(make_statement(parse_run_file(text)))
    assert said.startswith(r"# Privacy statement: R\*D \| [x\](y) \<b> \&amp; \_a\_ b_c" + "\n")
    (row,) = [line for line in said.splitlines() if line.startswith("| 1 |")]
    assert len(re.findall(r"(?<!\\)\|", row)) == 5
    assert r"we_b\|x" in row
    assert r"1 example from we_b\|x and 2 from \_b\_" in said


def test_every_form_says_what_it_means_for_one_person(made):
    sentences = made.explanation.sentences()
    assert len(sentences) == 5
    markdown = formats.as_markdown(made)
    assert all(f"- {sentence}" in markdown for sentence in sentences)
    assert "What it means for one person" in formats.as_latex(made)
    assert "WHAT IT MEANS FOR ONE PERSON" in formats.as_text(made)
    assert formats.as_json(made)["explanation"]["sentences"] == sentences
    # The same numbers as `groupdp explain`.
    explained = explain(list(made.run.phases), delta=made.run.stated_delta, group_size=made.run.group_size)
    assert explained.sentences() == sentences


@pytest.mark.parametrize("epsilon", [59.9, 60.1, 699.0, 701.0, 1234.5])
def test_the_factor_is_never_below_e_to_the_epsilon(epsilon):
    said = _factor(epsilon)
    power = int(said.removeprefix("10^")) * math.log(10.0) if said.startswith("10^") else math.log(float(said))
    assert epsilon <= power * (1.0 + 1e-12)
    assert power <= epsilon + 2.4


def test_a_verified_certificate_is_carried_with_the_interval_that_was_proved():
    pytest.importorskip("flint")
    from groupdp.certificate import certify

    run = parse_run_file(TWO_PHASES)
    certified = certify(list(run.phases), delta=1e-6, group_size=4)
    claimed = certified.document["claim"]["epsilon"]
    found = make_statement(run, certificate=certified.text)
    assert found.certificate == certified.digest
    assert found.proved == (claimed["lower"], claimed["upper"])
    assert f"lies in [{claimed['lower']}, {claimed['upper']}], from the certificate" in statement.method(found)
    weaker = json.loads(certified.text)
    weaker["claim"]["epsilon"] = {"lower": "0", "upper": "infinity"}
    assert make_statement(run, certificate=json.dumps(weaker)).proved == ("0", "infinity")
    weaker["claim"]["group_size"] = 3
    with refused("certificate", value="one of another claim"):
        make_statement(run, certificate=json.dumps(weaker))


PER_PERSON = 'mechanism = "gaussian"\nnoise_multiplier = 5\nper_person = true\n'


def test_a_release_about_all_examples_of_a_person_assumes_no_number_of_examples():
    run = parse_run_file(f"delta = 1e-6\ngroup_size = 3\n[[phase]]\n{PER_PERSON}")
    made = make_statement(run)
    for render in (formats.as_markdown, formats.as_text, formats.as_latex):
        said = render(made)
        assert "one person" in said
        assert "3 examples" not in said
        assert "No person has more than" not in said
    mixed = parse_run_file(
        f"delta = 1e-6\n[[phase]]\n{PER_PERSON}group_size = 1\n"
        '[[phase]]\nsampling = "poisson"\nsampling_rate = 0.01\nnoise_multiplier = 1\nsteps = 10\ngroup_size = 3\n'
    )
    said = " ".join(statement.assumptions(replace(mixed, group_size=3)))
    assert "a person has at most 3 examples" in said
    assert "at most one example" not in said


def test_only_a_phase_that_has_a_noise_multiplier_states_one():
    run = parse_run_file(
        f"delta = 1e-6\n[[phase]]\n{PER_PERSON}group_size = 1\n"
        '[[phase]]\nsampling = "poisson"\nsampling_rate = 0.01\nnoise_multiplier = 1.5\nsteps = 10\ngroup_size = 3\n'
    )
    said = " ".join(formats.as_text(make_statement(replace(run, group_size=3))).split())
    assert "noise multiplier -" not in said
    assert "phase 1: a Gaussian release" in said
    assert "where a person has 3 examples; noise multiplier 1.5; 10 rounds" in said
