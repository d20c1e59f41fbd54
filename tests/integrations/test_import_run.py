"""`groupdp import-run`: run files from what training left behind."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from dataclasses import replace

import pytest

import command_line
import groupdp
from groupdp.integrations.import_run import import_run
from groupdp.run_file import read_run_file

HISTORY = [[2.0, 0.01, 500], [1.5, 1 / 93, 92]]
PHASES = (
    groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.01), noise_multiplier=2.0, steps=500),
    groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=1 / 93), noise_multiplier=1.5, steps=92),
)
TENSORFLOW = {
    "number_of_examples": 20_000,
    "batch_size": 200,
    "num_epochs": 20,
    "noise_multiplier": 4.0,
    "used_microbatching": False,
    "max_examples_per_user": 8,
    "delta": 1e-6,
}


def run_command(*words):
    return command_line.groupdp(shlex.join(str(word) for word in words))


def written(path, content):
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize("content", [HISTORY, {"history": HISTORY, "mechanism": "rdp"}])
def test_a_history_becomes_a_run_file(tmp_path, content):
    source = written(tmp_path / "history.json", content)
    out = tmp_path / "run.toml"
    result = run_command("import-run", source, "-o", out, "--delta", "1e-6", "--group-size", "8")
    assert result.status == 0
    assert "592 steps in 2 phases" in result.output
    found = read_run_file(out)
    assert found.phases == PHASES
    assert (found.delta, found.group_size, found.adjacency) == (1e-6, 8, "add-or-remove")
    assert found.title == "Run from history.json"


def test_the_name_of_our_accountant_says_the_group(tmp_path):
    source = written(tmp_path / "h.json", {"history": HISTORY, "mechanism": "groupdp-8-substitute"})
    result = run_command("import-run", source, "--out", tmp_path / "run.toml", "--delta", "1e-6", "--title", "Mine")
    assert result.status == 0
    found = read_run_file(tmp_path / "run.toml")
    assert (found.group_size, found.adjacency, found.title) == (8, "substitute", "Mine")


def test_what_the_source_does_not_say_is_left_open(tmp_path):
    source = written(tmp_path / "h.json", HISTORY)
    result = run_command("import-run", source, "--out", tmp_path / "run.toml")
    assert result.status == 0
    assert "does not say group_size and delta" in result.output
    found = read_run_file(tmp_path / "run.toml")
    assert (found.group_size, found.delta) == (None, None)


def test_hyperparameters_of_tensorflow_privacy(tmp_path):
    found = import_run(written(tmp_path / "tf.json", TENSORFLOW))
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.01), noise_multiplier=4.0, steps=2000)
    assert found.phases == (run,)
    assert (found.group_size, found.delta) == (8, 1e-6)
    micro = {**TENSORFLOW, "used_microbatching": True}
    assert import_run(written(tmp_path / "tf.json", micro)).phases == (replace(run, microbatch_size=2),)


def test_parameters_of_jax_privacy(tmp_path):
    pytest.importorskip("jax_privacy", reason="needs the extra jax-privacy: make test-integrations")
    params = {
        "num_samples": 10_000,
        "batch_size": 100,
        "noise_multipliers": [[0, 4.0], [50, 3.0]],
        "delta": 1e-6,
        "examples_per_user": 8,
        "num_updates": 80,
    }
    found = import_run(written(tmp_path / "jax.json", params))
    assert [(phase.noise_multiplier, phase.steps) for phase in found.phases] == [(4.0, 50), (3.0, 30)]
    assert (found.group_size, found.delta) == (8, 1e-6)
    fixed = {**params, "noise_multipliers": 4.0, "sampling_method": "FIXED_BATCH_SIZE"}
    (phase,) = import_run(written(tmp_path / "jax.json", fixed)).phases
    assert phase.sampling == groupdp.FixedBatchSampling(batch_size=100, dataset_size=9992)
    for changes, sentence in (
        ({"sampling_method": "SHUFFLED"}, "sampling_method must be one of"),
        ({"noise_multipliers": [[0, 1.0, 2.0]]}, "noise_multipliers must be a number or pairs"),
        ({"cycle_length": 4}, "cycle_length must be 1 for a group of 8"),
        ({"other": 4}, "key must be one of"),
    ):
        with pytest.raises(groupdp.InvalidArgument, match=sentence):
            import_run(written(tmp_path / "jax.json", {**params, **changes}))


def test_a_real_checkpoint_of_opacus(tmp_path):
    pytest.importorskip("opacus", reason="needs the extra opacus: make test-integrations")
    script = (
        "import sys, warnings; warnings.simplefilter('ignore'); sys.path.insert(0, sys.argv[1])\n"
        "from opacus_training import parts, train\n"
        "from groupdp.integrations.opacus import GroupPrivacyEngine\n"
        "engine = GroupPrivacyEngine(group_size=8)\n"
        "given = dict(parts(batch_size=31), noise_multiplier=2.0, max_grad_norm=1.0)\n"
        "module, optimizer, loader = engine.make_private(**given)\n"
        "train(module, optimizer, loader)\n"
        "engine.save_checkpoint(path=sys.argv[2], module=module, optimizer=optimizer)\n"
    )
    checkpoint = tmp_path / "checkpoint.pt"
    folder = str(__file__).rsplit("/", 1)[0]
    subprocess.run([sys.executable, "-c", script, folder, str(checkpoint)], check=True)
    result = run_command("import-run", checkpoint, "-o", tmp_path / "run.toml", "--delta", "1e-5")
    assert result.status == 0, result.errors
    found = read_run_file(tmp_path / "run.toml")
    assert found.phases == (groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=1 / 6), noise_multiplier=2.0, steps=6),)
    assert found.group_size == 8


def test_a_checkpoint_with_code_in_it_is_refused_and_not_executed(tmp_path):
    torch = pytest.importorskip("torch", reason="needs the extra opacus: make test-integrations")

    class Payload:
        def __reduce__(self):
            return open, (str(tmp_path / "executed"), "w")

    torch.save({"privacy_accountant_state_dict": Payload()}, tmp_path / "bad.pt")
    result = run_command("import-run", tmp_path / "bad.pt", "-o", tmp_path / "run.toml")
    assert result.status == 2
    assert "read without executing anything" in result.errors
    assert not (tmp_path / "executed").exists()
    assert not (tmp_path / "run.toml").exists()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("not json", "source must be a PyTorch checkpoint or JSON"),
        ("[" * 100_000, "source must be a PyTorch checkpoint or JSON"),
        ("[]", "history must have at least one step"),
        ("[[1.0, 0.1]]", "history must consist of"),
        ('[["1.0", 0.1, 3]]', "noise_multiplier must be"),
        ("[[NaN, 0.1, 3]]", "noise_multiplier must be"),
        ("[[1.0, 0.1, 3.5]]", "steps must be"),
        ('{"weights": 1}', "source must hold a privacy_accountant_state_dict"),
        ('{"number_of_examples": 100}', "batch_size must be given with number_of_examples"),
        ('{"number_of_examples": 100, "hidden": 1}', "key must be one of"),
        ("3", "history must be a list"),
    ],
)
def test_what_is_no_run_is_refused_and_nothing_is_written(tmp_path, content, sentence):
    (tmp_path / "source").write_text(content)
    result = run_command("import-run", tmp_path / "source", "-o", tmp_path / "run.toml", "--delta", "1e-6")
    assert result.status == 2
    assert sentence in result.errors
    assert len(result.errors.strip().splitlines()) == 1
    assert not (tmp_path / "run.toml").exists()


def test_files_that_cannot_be_used(tmp_path):
    missing = run_command("import-run", tmp_path / "none", "-o", tmp_path / "run.toml")
    assert missing.status == 2
    assert "source must be a file that can be read" in missing.errors
    source = written(tmp_path / "h.json", HISTORY)
    same = run_command("import-run", source, "-o", source)
    assert same.status == 2
    assert "out must be another file than the source" in same.errors
    many = written(tmp_path / "many.json", [[1.0 + i / 7, 0.01, 5] for i in range(3000)])
    long = run_command("import-run", many, "-o", tmp_path / "run.toml")
    assert long.status == 2
    assert "3000 phases" in long.errors
    for option, value, sentence in (
        ("--delta", "2", "delta must be in (0, 1)"),
        ("--group-size", "0", "group_size must be"),
        ("--adjacency", "other", "adjacency must be one of"),
    ):
        bad = run_command("import-run", source, "-o", tmp_path / "run.toml", option, value)
        assert bad.status == 2
        assert sentence in bad.errors
