"""diffusers' tensor-parallel load of a transformer folder, for comparison with `tessera bench load`.

    python bench/diffusers_load.py FOLDER [--tp 2] [--repeats 5] [--dtype bfloat16]

Needs diffusers 0.42.1, torch and safetensors. diffusers streams: `ModelMixin.from_pretrained(parallel_config=...)` calls
`_load_shard_file_tp` (models/model_loading_utils.py), which slices each planned tensor while it is still in the file
(`safe_open(...).get_slice`, mapped into memory) and places it as a DTensor; what the plan does not name is read whole.

0.42.1 refuses CPUs. What had to be set here, nothing of the load itself:
- torch.distributed with the backend gloo, ranks spawned as processes of this machine, one thread each as Tessera's;
- a device mesh of type "cpu", handed over in TensorParallelConfig(mesh=...), because the model would make one of the
  accelerator's type;
- `torch.accelerator.device_count` answers 1: `_resolve_parallel_config` (models/modeling_utils.py) computes
  rank % device_count, which divides by zero where there is no accelerator; the device is then cpu:0;
- "cpu" is added to `_SUPPORTED_TP_DEVICES` (hooks/tensor_parallel.py), the list that refuses it.

The page cache is warm: a first load does not count. Prints, as JSON, the best time until the slowest rank was done, and
each rank's peak resident memory; that holds pages of the mapped files too, so memory of its own is given beside it.
"""

import argparse
import gc
import json
import os
import resource
import socket
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def allow_cpu():
    import diffusers.hooks.tensor_parallel as tensor_parallel

    torch.accelerator.device_count = lambda: 1
    tensor_parallel._SUPPORTED_TP_DEVICES += ("cpu",)


def resident_anonymous():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon"))


def load_once(folder, dtype, mesh):
    from diffusers import AutoModel, ParallelConfig, TensorParallelConfig

    config = ParallelConfig(tensor_parallel_config=TensorParallelConfig(mesh=mesh))
    before = resident_anonymous()
    dist.barrier()
    start = time.perf_counter()
    model = AutoModel.from_pretrained(folder, torch_dtype=dtype, parallel_config=config)
    seconds = torch.tensor(time.perf_counter() - start, dtype=torch.float64)
    dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
    local = [p.to_local() if hasattr(p, "to_local") else p for p in model.parameters()]
    part = sum(p.numel() * p.element_size() for p in local)
    return seconds.item(), part, resident_anonymous() - before


def run(rank, arguments, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=arguments.tp)
    allow_cpu()
    import diffusers

    diffusers.utils.logging.set_verbosity_error()
    diffusers.utils.logging.disable_progress_bar()
    mesh = dist.device_mesh.init_device_mesh("cpu", (arguments.tp,), mesh_dim_names=("tp",))
    seconds, part, own = [], 0, 0
    for _ in range(arguments.repeats + 1):
        s, part, own = load_once(arguments.folder, getattr(torch, arguments.dtype), mesh)
        seconds.append(s)
        gc.collect()
    result = {
        "rank": rank,
        "weight_bytes": part,
        "seconds": min(seconds[1:]),
        "peak_resident_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "own_resident_bytes": own,
    }
    results = [None] * arguments.tp
    dist.all_gather_object(results, result)
    if rank == 0:
        print(json.dumps({"diffusers": diffusers.__version__, "torch": torch.__version__, "ranks": results}))
    dist.destroy_process_group()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--tp", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--dtype", default="bfloat16")
    arguments = parser.parse_args()
    mp.spawn(run, args=(arguments, free_port()), nprocs=arguments.tp)


if __name__ == "__main__":
    main()
