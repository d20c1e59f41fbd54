"""Two processes that train one model together (gloo): both count the same steps at the same rate."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import groupdp
from groupdp.loading import SpreadBatches

pytest.importorskip("opacus", reason="needs the extra opacus: make test-integrations")

WORKER = Path(__file__).with_name("ddp_worker.py")


def outputs_of(what, folder):
    workers = [
        subprocess.Popen(
            [sys.executable, str(WORKER), what, str(rank), str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    try:
        outputs = [worker.communicate(timeout=600) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    assert [worker.returncode for worker in workers] == [0, 0], outputs[0][1] + outputs[1][1]
    return outputs


def test_two_processes_share_the_batches_of_one_sampler(tmp_path):
    outputs = outputs_of("batches", tmp_path)
    found = [[json.loads(line) for line in output.splitlines()] for output, _ in outputs]
    whole = [batch.tolist() for batch in SpreadBatches([n // 3 for n in range(60)], batches=10, seed=5).arrays()]
    (first, apart, problems), (second, _, _) = found
    for one in (first, second):
        assert one["passes"]
        assert one["agree"]
    shares = zip(first["shares"], second["shares"], strict=True)
    assert [sorted(mine + others) for mine, others in shares] == whole
    assert [batch[0::2] for batch in whole] == first["shares"]
    assert not apart["agree"]  # what the report asks to be checked
    assert "2 train" in problems[0]


def test_two_processes_agree(tmp_path):
    outputs = outputs_of("train", tmp_path)
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=1 / 6), noise_multiplier=2.0, steps=6)
    expected = groupdp.epsilon(run, delta=1e-5, group_size=8).upper
    lines = zip(*(output.splitlines() for output, _ in outputs), strict=True)
    engines = [(json.loads(first), json.loads(second)) for first, second in lines]
    assert len(engines) == 2  # the stock one and the one for groups
    for first, second in engines:
        assert first == second  # the same weights too: noise is added once, and shared
        assert first["history"] == [[2.0, 1 / 6, 6]]
        assert first["epsilon"] == expected
        assert first["warned"] == 1  # 15 examples on average: once in 23 million steps a process would have none
