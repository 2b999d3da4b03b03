"""What is emitted for PyTorch's FSDP: accelerate.yaml through accelerate's
launcher, train.toml through torchtitan's loader, fsdp.py on two processes."""

import json
import os

from checks import check, emit, expect, is_read_back, name_of, run_on_two

PLANS = [("zero=0", {}), ("zero=2", {}), ("zero=3", {}),
         ("zero=3,shard=4", {}), ("tp=2,zero=3", {}), ("cp=2,zero=3", {}),
         ("zero=3,offload=cpu+parameters", {}), ("zero=3,recompute=full", {}),
         ("zero=3", {"--gpus": "16"}),
         ("zero=3,shard=8", {"--gpus": "32"})]
PRECISIONS = [("zero=3", {"--precision": "fp16"})]  # torchtitan has no fp16
PIPELINES = [("pp=2,zero=3", {}), ("pp=2,vpp=2,zero=2", {}),
             ("tp=2,sp=1,zero=3", {}), ("zero=3,recompute=selective", {}),
             ("zero=3", {"--precision": "fp8"})]
ON_TWO = [("zero=3", {}), ("zero=2", {}), ("zero=0", {}),
          ("zero=3,recompute=full", {})]


def words_of(strategy):
    return dict(part.split("=") for part in strategy.split(","))


def grid_of(strategy, flags):
    """Replicas, shards, tensor and context ways of a plan."""
    words = words_of(strategy)
    tensor, context = int(words.get("tp", 1)), int(words.get("cp", 1))
    data = int(flags.get("--gpus", 8)) // tensor // context // int(
        words.get("pp", 1))
    shards = int(words.get("shard", data)) if words["zero"] != "0" else 1
    return data // shards, shards, tensor, context


def launched(file):
    """The environment in which `accelerate launch` would start each rank."""
    from accelerate.commands import launch
    from accelerate.utils.launch import prepare_multi_gpu_env
    arguments = launch.launch_command_parser().parse_args(
        ["--config_file", str(file), "train.py"])
    arguments, *_ = launch._validate_launch_command(arguments)
    return arguments, prepare_multi_gpu_env(arguments)


def accelerate_accepts(strategy, flags):
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.parallelism_config import ParallelismConfig
    from accelerate.utils import FullyShardedDataParallelPlugin
    file = emit("accelerate", "fsdp", strategy, flags) / "accelerate.yaml"
    load_config_from_file(str(file))
    arguments, environment = launched(file)
    expect("processes", arguments.num_processes, int(flags.get("--gpus", 8)))
    expect("precision", arguments.mixed_precision,
           flags.get("--precision", "bf16"))
    words = words_of(strategy)
    expect("FSDP", environment.get("ACCELERATE_USE_FSDP"),
           None if words["zero"] == "0" else "true")
    if words["zero"] == "0":
        return
    before = dict(os.environ)
    os.environ.update(environment)
    try:
        plugin = FullyShardedDataParallelPlugin()
        grid = (ParallelismConfig() if arguments.use_parallelism_config
                else None)
    finally:
        os.environ.clear()
        os.environ.update(before)
    expect("version", plugin.fsdp_version, 2)
    expect("reshard", plugin.reshard_after_forward, words["zero"] == "3")
    expect("offload", type(plugin.cpu_offload).__name__,
           "CPUOffloadPolicy" if "offload" in words else "OffloadPolicy")
    expect("recompute", plugin.activation_checkpointing, "recompute" in words)
    if grid or "shard" in words:
        expect("grid", (grid.dp_replicate_size, grid.dp_shard_size,
                        grid.tp_size, grid.cp_size), grid_of(strategy, flags))


def torchtitan_accepts(strategy, flags):
    import tomllib

    from torchtitan.config import ConfigManager
    file = emit("torchtitan", "fsdp", strategy, flags) / "train.toml"
    config = ConfigManager().parse_args(["--job.config_file", str(file)])
    has_what_is_said(config, tomllib.loads(file.read_text()))
    grid = config.parallelism
    expect("grid", (grid.data_parallel_replicate_degree,
                    grid.data_parallel_shard_degree,
                    grid.tensor_parallel_degree,
                    grid.context_parallel_degree), grid_of(strategy, flags))
    is_a_mesh(grid, int(flags.get("--gpus", 8)))


def has_what_is_said(config, said, path=""):
    for key, value in said.items():
        found = getattr(config, key)
        if isinstance(value, dict):
            has_what_is_said(found, value, f"{path}{key}.")
        else:
            expect(path + key, found, value)


def is_a_mesh(grid, gpus):
    """torchtitan's own conditions on the degrees, and PyTorch's schedules."""
    from torch.distributed.pipelining.schedules import get_schedule_class
    from torchtitan.distributed import ParallelDims
    ParallelDims(dp_replicate=grid.data_parallel_replicate_degree,
                 dp_shard=grid.data_parallel_shard_degree,
                 cp=grid.context_parallel_degree,
                 tp=grid.tensor_parallel_degree,
                 pp=grid.pipeline_parallel_degree,
                 ep=grid.expert_parallel_degree,
                 etp=grid.expert_tensor_parallel_degree, world_size=gpus)
    if grid.pipeline_parallel_degree > 1:
        get_schedule_class(grid.pipeline_parallel_schedule)


def shards(strategy, flags):
    """fsdp.py as it is: two ranks hold what the plan says, and train."""
    small = {"--model": "gpt2", "--gpus": "2", "--seq": "128",
             "--global-batch": "4", **flags}
    made = emit("fsdp", "fsdp", strategy, small)
    plan = json.loads((made / "fsdp.json").read_text())
    expect("grid", (*plan["mesh"].values(), 1, 1), grid_of(strategy, small))
    return run_on_two("train_fsdp.py", made)


def check_all():
    for strategy, flags in PLANS + PRECISIONS:
        check(f"accelerate launch of {name_of(strategy, flags)}",
              accelerate_accepts, strategy, flags)
    for strategy, flags in PLANS + PIPELINES:
        check(f"torchtitan ConfigManager of {name_of(strategy, flags)}",
              torchtitan_accepts, strategy, flags)
    for strategy, flags in ON_TWO:
        check(f"fsdp.py of {name_of(strategy, flags)}", shards, strategy,
              flags)
    for target, name in (("accelerate", "accelerate.yaml"),
                         ("torchtitan", "train.toml"), ("fsdp", "fsdp.json")):
        check(f"ztplan check of {name}", is_read_back, target, "fsdp",
              name, "zero=3")
