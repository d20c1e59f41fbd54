"""One of two processes that train together; prints what its accountants counted. Run by test_opacus_distributed.py."""

from __future__ import annotations

import json
import sys
import warnings

import torch
import torch.distributed
from opacus import PrivacyEngine
from opacus.distributed import DifferentiallyPrivateDistributedDataParallel
from opacus_training import parts, train

from groupdp.integrations import opacus as group_opacus


def main(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    name = group_opacus.register(group_size=8)
    for engine in (PrivacyEngine(accountant=name), group_opacus.GroupPrivacyEngine(group_size=8)):
        given = parts(batch_size=31)
        given["module"] = DifferentiallyPrivateDistributedDataParallel(given["module"])
        given["optimizer"] = torch.optim.SGD(given["module"].parameters(), lr=0.1)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            wrapped = engine.make_private(**given, noise_multiplier=2.0, max_grad_norm=1.0)
            train(*wrapped)
        warned = sum("leaves out" in str(one.message) for one in caught)
        weights = [value.tolist() for value in wrapped[0].state_dict().values()]
        counted = {"history": engine.accountant.history, "epsilon": engine.get_epsilon(1e-5), "weights": weights}
        counted["warned"] = warned
        print(json.dumps(counted), flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
