"""Run files: what they say, and complaints that name the key and the line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupdp import DPSGD, FixedBatchSampling, InvalidArgument, PoissonSampling
from groupdp.run_file import LARGEST_FILE, line_of, parse_run_file, read_run_file, run_of
from paths import ROOT
from refusals import refused
from strategies import examples

EXAMPLE = ROOT / "examples" / "run.toml"

TEXT = """\
# a comment
title = "A run"
delta = 1e-6
group_size = 3

[[phase]]
sampling = "poisson"
sampling_rate = 0.01
noise_multiplier = 1.5
steps = 100

[[phase]]
sampling = "fixed-batch"
batch_size = 50
dataset_size = 5000
noise_multiplier = 3
epochs = 2.5
microbatch_size = 5
"""


def changed(old: str, new: str) -> str:
    assert TEXT.count(old) == 1
    return TEXT.replace(old, new)


def complaint(text: str) -> str:
    with pytest.raises(InvalidArgument) as caught:
        parse_run_file(text, name="run.toml")
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    return sentence


def test_a_run_file_says_what_it_says():
    run = parse_run_file(TEXT)
    assert (run.title, run.delta, run.group_size, run.adjacency) == ("A run", 1e-6, 3, "add-or-remove")
    assert run.phases == (
        DPSGD(sampling=PoissonSampling(rate=0.01), noise_multiplier=1.5, steps=100),
        DPSGD(
            sampling=FixedBatchSampling(batch_size=50, dataset_size=5000),
            noise_multiplier=3.0,
            steps=250,
            microbatch_size=5,
        ),
    )


def test_the_example_file_is_valid():
    run = read_run_file(EXAMPLE)
    assert [phase.steps for phase in run.phases] == [1000, 1000]


def test_the_documented_file_and_the_documented_complaints():
    guide = (EXAMPLE.parents[1] / "docs" / "run-file.md").read_text()
    example = guide.split('```toml title="run.toml"\n')[1].split("```")[0]
    run = parse_run_file(example)
    assert [phase.steps for phase in run.phases] == [1000, 1000]
    real = EXAMPLE.read_text()
    keys = (
        "sampling, noise_multiplier, steps, epochs, microbatch_size, sampling_rate, batch_size, dataset_size, mechanism"
    )
    for old, new, sentence in (
        (
            "sampling_rate = 0.01",
            "sampling_rate = 5",
            "line 9: sampling_rate must be a probability in (0, 1], got 5 (a percentage p is written p / 100).",
        ),
        (
            "noise_multiplier = 1.5",
            "noise = 1.5",
            f"line 16: 'noise' is not a known key in a poisson phase: {keys} are.",
        ),
        ("noise_multiplier = 1.5\n", "", "line 13: noise_multiplier must be given in phase 2, which begins here."),
    ):
        assert complaint(real.replace(old, new)) == f"run.toml, {sentence}"


def test_epochs_are_exact():
    run = parse_run_file(changed("steps = 100", "epochs = 20"))
    assert run.phases[0].steps == 2000


def test_line_ends_of_windows_count_the_same():
    text = changed("steps = 100", "steps = -1")
    assert complaint(text.replace("\n", "\r\n")) == complaint(text)


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        # wrong types
        ("delta = 1e-6", 'delta = "1e-6"', 3, ("delta must be a number without quotes", "'1e-6'")),
        ("delta = 1e-6", "delta = true", 3, ("delta must be", "True")),
        ("delta = 1e-6", "delta = [1e-6]", 3, ("delta must be", "got [1e-6].")),
        ("noise_multiplier = 1.5", "noise_multiplier = { a = [2.50] }", 9, ("got {'a': [2.50]}.",)),
        ("delta = 1e-6", "delta = 1979-05-27", 3, ("delta must be",)),
        ("group_size = 3", "group_size = 3.0", 4, ("group_size must be an integer", "3.0")),
        ("group_size = 3", 'group_size = "3"', 4, ("group_size must be a number without quotes", "'3'")),
        ('sampling = "poisson"', "sampling = 1", 7, ("sampling must be one of poisson, fixed-batch",)),
        ("steps = 100", "steps = 100.5", 10, ("steps must be an integer",)),
        ("noise_multiplier = 1.5", "noise_multiplier = {}", 9, ("noise_multiplier must be",)),
        ('title = "A run"', "title = 5", 2, ("title must be",)),
        ('title = "A run"', 'title = "two\\nlines"', 2, ("title must be",)),
        # wrong values and units
        ("delta = 1e-6", "delta = 0", 3, ("delta must be in (0, 1)",)),
        ("delta = 1e-6", "delta = nan", 3, ("delta must be in (0, 1)", "nan")),
        ("delta = 1e-6", "delta = 1e-999999", 3, ("delta must be in (0, 1)",)),
        ("group_size = 3", "group_size = -1", 4, ("group_size must be",)),
        ("group_size = 3", "group_size = 5001", 4, ("group_size must be at most dataset_size=5000",)),
        ("sampling_rate = 0.01", "sampling_rate = 5", 8, ("sampling_rate must be a probability", "percentage")),
        ("sampling_rate = 0.01", "sampling_rate = 0.0", 8, ("sampling_rate must be",)),
        ("sampling_rate = 0.01", "sampling_rate = -inf", 8, ("sampling_rate must be",)),
        ("noise_multiplier = 1.5", "noise_multiplier = -1", 9, ("noise_multiplier must be",)),
        ("noise_multiplier = 1.5", "noise_multiplier = 1e-9", 9, ("noise_multiplier must be",)),
        ("noise_multiplier = 3", "noise_multiplier = 1e999", 16, ("noise_multiplier must be",)),
        ("steps = 100", "steps = -1", 10, ("steps must be",)),
        ("epochs = 2.5", "epochs = -0.5", 17, ("epochs must be",)),
        ("epochs = 2.5", "epochs = 1e-999999999", 17, ("epochs must be",)),
        ("epochs = 2.5", "epochs = 1e999999999", 17, ("epochs must be",)),
        ("epochs = 2.5", "epochs = 1e300", 17, ("epochs must amount to at most",)),
        ("batch_size = 50\n", "batch_size = 5001\n", 14, ("batch_size must be at most dataset_size=5000",)),
        ("microbatch_size = 5", "microbatch_size = 0", 18, ("microbatch_size must be",)),
        # unknown keys, and keys that belong elsewhere
        ("delta = 1e-6", "delta = 1e-6\nlearning_rate = 0.1", 4, ("'learning_rate' is not a known key",)),
        ("steps = 100", "steps = 100\nnoise = 1", 11, ("'noise' is not a known key in a poisson phase",)),
        (
            "steps = 100",
            "steps = 100\nbatch_size = 5",
            11,
            ("batch_size must not be given together with sampling_rate",),
        ),
        ('sampling = "poisson"', 'samplng = "poisson"', 7, ("'samplng' is not a known key", "mean sampling?")),
        ('sampling = "fixed-batch"', 'samplng = "fixed-batch"', 13, ("'samplng' is not a known", "mean sampling?")),
        ("delta = 1e-6", "dleta = 1e-6", 3, ("'dleta' is not a known key", "mean delta?")),
        ("batch_size = 50\n", "batch_size = 50\nsampling_rate = 0.1\n", 15, ("'sampling_rate' is not a known key",)),
        ("steps = 100", "steps = 100\nepochs = 1", 11, ("epochs must not be given together with steps",)),
        # missing keys: the line where the phase begins
        ("noise_multiplier = 1.5\n", "", 6, ("noise_multiplier must be given in phase 1",)),
        ('sampling = "fixed-batch"\n', "", 12, ("sampling must be given in phase 2",)),
        ("dataset_size = 5000\n", "", 12, ("dataset_size must be given in phase 2",)),
        ("epochs = 2.5\n", "", 12, ("steps must be given in phase 2",)),
    ],
)
def test_a_complaint_names_the_key_and_the_line(old, new, line, words):
    sentence = complaint(changed(old, new))
    assert sentence.startswith(f"run.toml, line {line}: "), sentence
    for word in words:
        assert word in sentence


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ("phase must be given",)),
        ("delta = 1e-6\ngroup_size = 1\n", ("phase must be given",)),
        ("delta = 1e-6\ngroup_size = 1\nphase = 5\n", ("line 3", "[[phase]]")),
        ("delta = 1e-6\ngroup_size = 1\nphase = []\n", ("line 3", "[[phase]]")),
        ("delta = 1e-6\ngroup_size = 1\n[phase]\nsteps = 1\n", ("line 3", "[[phase]]")),
        ("delta = = 1\n", ("valid TOML", "line 1")),
        ("delta = 1\ndelta = 2\n", ("valid TOML", "line 2")),
        ("x = " + "[" * 5000, ("nested too deeply",)),
        ("x = " + "9" * 5000, ("valid TOML", "digits")),
        ("\x00", ("valid TOML",)),
    ],
)
def test_a_broken_document_is_one_sentence(text, words):
    sentence = complaint(text)
    for word in words:
        assert word in sentence


def test_a_file_may_leave_the_question_to_whoever_asks_it():
    run = parse_run_file(TEXT.replace("delta = 1e-6\n", "").replace("group_size = 3\n", ""))
    assert (run.delta, run.group_size) == (None, None)
    with refused("delta"):
        _ = run.stated_delta


def test_a_phase_with_a_sampling_rate_is_poisson_as_on_the_command_line():
    assert parse_run_file(changed('sampling = "poisson"\n', "")).phases == parse_run_file(TEXT).phases


@pytest.mark.parametrize(("old", "new"), [("steps = 100", "steps = 0"), ("steps = 100", "epochs = 0")])
def test_no_steps_and_nobody_are_accepted_as_options_are(old, new):
    run = parse_run_file(changed(old, new).replace("group_size = 3", "group_size = 0"))
    assert (run.phases[0].steps, run.group_size) == (0, 0)
    assert run.phases[0] == DPSGD.from_epochs(run.phases[0].sampling, noise_multiplier=1.5, epochs=0)


@pytest.mark.parametrize("value", ["1e-999999999", "1e999999999", "-1e-999999999"])
def test_an_exponent_of_nine_digits_is_refused_at_once(value):
    """Written out as a fraction it would have a thousand million digits."""
    assert complaint(changed("sampling_rate = 0.01", f"sampling_rate = {value}")).startswith("run.toml, line 8: ")
    assert complaint(changed("epochs = 2.5", f"epochs = {value}")).startswith("run.toml, line 17: ")


def test_a_value_over_several_lines_is_found_where_it_begins():
    text = changed('title = "A run"', 'title = """\\\n  A \\\n  run"""')
    assert complaint(text.replace("delta = 1e-6", "delta = 7")).startswith("run.toml, line 5: delta")
    text = changed("delta = 1e-6", "delta = [\n  1,\n\n  # a comment\n  2,\n]")
    assert complaint(text).startswith("run.toml, line 3: ")


def test_phases_may_be_written_inline():
    text = (
        'delta = 1e-6\ngroup_size = 1\nphase = [\n  {sampling = "poisson", sampling_rate = 2, noise_multiplier = 1, '
        "steps = 1},\n]\n"
    )
    assert complaint(text).startswith("run.toml, line 3: ")


@pytest.mark.parametrize("content", [b"\xff\xfe", b"#" * (LARGEST_FILE + 1)], ids=["not UTF-8", "too long"])
def test_a_file_that_is_no_run_file(tmp_path, content):
    path = tmp_path / "run.toml"
    path.write_bytes(content)
    with refused("run file"):
        read_run_file(path)


@pytest.mark.parametrize("name", ["missing.toml", ".", "a\0b"])
def test_a_file_that_cannot_be_read(tmp_path, name):
    with refused("run file"):
        read_run_file(f"{tmp_path}/{name}")


@examples(50)
@given(
    keys=st.lists(st.from_regex(r"[a-z]{1,5}", fullmatch=True), unique=True, min_size=1, max_size=12),
    data=st.data(),
)
def test_every_key_is_found_on_its_line(keys, data):
    """Keys in order, with blank lines, comments, multi-line values and tables strewn in between."""
    lines: list[str] = []
    begins: dict[tuple[object, ...], int] = {}
    where: tuple[object, ...] = ()
    tables = 0
    for key in keys:
        match data.draw(st.sampled_from(["plain", "blank", "comment", "array", "string", "table"])):
            case "blank":
                lines += ["", "  "]
            case "comment":
                lines.append(f"# {key} = 1")
            case "table":
                lines.append("[[t_]]")
                where = ("t_", tables)
                tables += 1
            case "array":
                begins[(*where, key)] = len(lines) + 1
                lines += [f"{key} = [", "", "  1, # one", "]"]
                continue
            case "string":
                begins[(*where, key)] = len(lines) + 1
                lines += [f'"{key}" = """', "x = 1", "[[t_]]", '"""']
                continue
        begins[(*where, key)] = len(lines) + 1
        lines.append(f"{key} = 1")
    text = "\n".join(lines)
    for path, line in begins.items():
        assert line_of(text, path) == line


def test_a_zero_with_an_exponent_of_nine_digits_is_zero():
    assert complaint(changed("sampling_rate = 0.01", "sampling_rate = 0e999999999")).startswith("run.toml, line 8: ")
    assert parse_run_file(changed("epochs = 2.5", "epochs = 0e999999999")).phases[1].steps == 0


@pytest.mark.parametrize(
    "text",
    [
        "a." * 20_000 + "b = 1\n",
        '"a" .' * 20_000 + "b = 1\n",
        "[" + "a." * 20_000 + "b]\n",
        "x = { " + "a." * 20_000 + "b = 1 }\n",
        "[[phase]]\n" + "a . " * 10_000 + "b = 1\n",
    ],
)
def test_a_key_of_thousands_of_parts_is_refused_before_it_is_parsed(text, monkeypatch):
    """The standard parser takes time quadratic in the parts of a key: 9 seconds for 40 KB."""
    monkeypatch.setattr("groupdp.run_file.tomllib", None)
    assert "a key must have at most 8 parts" in complaint(text)


def test_dots_in_texts_comments_and_numbers_are_not_parts_of_a_key():
    dots = "a.b.c.d.e.f.g.h.i.j.k.l"
    text = changed("delta = 1e-6", f"delta = 1e-6 # {dots}").replace("[[phase]]", f"# {dots} = 1\n[[phase]]", 1)
    file = parse_run_file(f'title = "{dots}"\n' + text.replace('title = "', '# title = "', 1))
    assert file.title == dots


def test_a_value_of_ten_thousand_lines_is_searched_by_few_parses(monkeypatch):
    """Every line of the value used to be tried: the search took minutes."""
    from groupdp import run_file as toml_lines

    parsed = []
    loads = toml_lines.tomllib.loads
    monkeypatch.setattr(toml_lines.tomllib, "loads", lambda text, **how: parsed.append(len(text)) or loads(text, **how))
    text = "group_size = 3\nxyz = [\n" + "1,\n" * 10_000 + "]\n"
    assert toml_lines.line_of(text, ("xyz",)) == 2
    text = "group_size = 3\nx = [\n" + '"x",\n' * 10_000 + "]\n"
    assert toml_lines.line_of(text, ("x",)) in (2, None)
    assert sum(parsed) < 3_000_000


PHASE = {"sampling": "poisson", "sampling_rate": "0.01", "noise_multiplier": 1.0, "steps": 10}


def test_an_error_about_a_phase_says_which_phase_it_is_about():
    with refused("noise_multiplier", value=-1.0) as error:
        run_of([PHASE, {**PHASE, "noise_multiplier": -1.0}])
    assert error.value.phase == 1
    people = {**PHASE, "sampling": "poisson-people", "examples_per_person": 2}
    with refused("run") as error:  # about both phases: one counts examples, the other people
        _ = run_of([PHASE, people], group_size=1).neighbours
    assert error.value.phase is None


def test_what_is_not_given_of_removed_and_added_is_0_and_a_group_is_never_assumed():
    assert run_of([PHASE], added=3).keywords == {"removed": 0, "added": 3}
    sources = {**PHASE, "sampling": "poisson-sources", "sampling_rates": {"web": 0.1, "books": 0.2}}
    del sources["sampling_rate"]
    assert run_of([sources], removed={"web": 2}).keywords == {
        "removed": {"web": 2, "books": 0},
        "added": {"web": 0, "books": 0},
    }
    with refused("group_size", value=3):
        _ = run_of([PHASE], group_size=3, removed=1).keywords
    with refused("group_size", value=3):
        parse_run_file("removed = 1\n" + TEXT)
    for tables, size in (([PHASE], None), ([sources], None), ([sources], 3)):
        with refused("group_size"):
            _ = run_of(tables, group_size=size).keywords
