"""One of two processes that train together; prints what its accountants counted, or its shares of groupdp's batches.
Run by test_opacus_distributed.py."""

from __future__ import annotations

import json
import sys
import warnings

import torch
import torch.distributed
from opacus import PrivacyEngine
from opacus.data_loader import wrap_collate_with_empty
from opacus.distributed import DifferentiallyPrivateDistributedDataParallel
from opacus_training import parts, train

import groupdp
from groupdp.integrations import opacus as group_opacus
from groupdp.loading import SpreadBatches


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


def batches(rank: int, folder: str) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    owners = [number // 3 for number in range(60)]
    data = torch.utils.data.TensorDataset(torch.arange(60))
    collate = wrap_collate_with_empty(collate_fn=torch.utils.data.default_collate)
    for seed in (5, 5 + rank):  # one seed for both; then, wrongly, one for each
        sampler = SpreadBatches(owners, batches=10, seed=seed, rank=rank, world_size=2)
        loader = torch.utils.data.DataLoader(data, batch_sampler=sampler, collate_fn=collate)
        prints = [None, None]
        torch.distributed.all_gather_object(prints, sampler.fingerprint)
        shares = [part.tolist() for (part,) in loader]
        print(json.dumps({"passes": groupdp.inspect(loader).passes, "agree": len(set(prints)) == 1, "shares": shares}))
    alone = SpreadBatches(owners, batches=10, seed=5)
    print(json.dumps(groupdp.inspect(torch.utils.data.DataLoader(data, batch_sampler=alone)).problems), flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    {"train": main, "batches": batches}[sys.argv[1]](int(sys.argv[2]), sys.argv[3])
