"""ds_config.json: through DeepSpeed's configuration class, with no key that
it does not read, and through deepspeed.initialize on two processes."""

import json

from checks import check, emit, expect, is_read_back, name_of, run_on_two

MIXTRAL = {"--model": "mixtral-8x7b"}
CONFIGURATIONS = [
    ("zero=0", {}), ("zero=1", {}), ("zero=2", {}), ("zero=3", {}),
    ("zero=3,shard=4", {}), ("zero=3,hpz=4", {}), ("zero=3,qw=1", {}),
    ("zero=3,qw=1,compress=quantized", {}),
    ("zero=1,offload=cpu", {}), ("zero=2,offload=cpu", {}),
    ("zero=3,offload=cpu", {}), ("zero=3,offload=cpu+parameters", {}),
    ("zero=3,offload=nvme", {}), ("zero=3,offload=nvme+parameters", {}),
    ("zero=0,compress=onebit", {}), ("zero=2,overlap=1,bucket=1e8", {}),
    ("zero=3,prefetch=1e7,live=1e9,persist=1e5", {}),
    ("zero=2,comm=fp32", {}), ("zero=3,recompute=full", {}),
    ("tp=2,zero=2", {}), ("pp=2,zero=1", {}), ("ep=2,zero=1", MIXTRAL),
    ("cp=2,cp_type=ulysses,zero=3", {}),
    ("zero=2", {"--precision": "fp16"}), ("zero=3", {"--precision": "fp16"}),
    ("zero=1", {"--precision": "fp32", "--attention": "sdpa"}),
    ("zero=1", {"--grad-dtype": "bf16"}),
    *(("zero=1", {"--optimizer": name})
      for name in ("adam8bit", "adagrad", "lion", "muon", "sgd")),
    ("zero=0", {"--optimizer": "lamb"}),
    ("zero=3", {"--gpus": "64", "--global-batch": "512"})]

# Keys that deepspeed.initialize reads before it makes the class.
READ_EARLIER = {"data_parallel_size", "sequence_parallel_size"}

# Parallel sizes that divide the ranks a batch is spread over.
SPLITS = ("pp=", "cp=")


class Watched(dict):
    """Remembers which of its keys were asked for."""

    def __init__(self, values):
        super().__init__(values)
        self.asked = set()

    def __getitem__(self, key):
        self.asked.add(key)
        return super().__getitem__(key)

    def __contains__(self, key):
        self.asked.add(key)
        return super().__contains__(key)

    def get(self, key, absent=None):
        self.asked.add(key)
        return super().get(key, absent)

    def __deepcopy__(self, memo):
        return self


class Grid:
    """The part of a model parallel unit that the class asks."""

    def __init__(self, size):
        self.size = size

    def get_data_parallel_world_size(self):
        return self.size


def replicas(strategy, gpus):
    for part in strategy.split(","):
        if part.startswith(SPLITS):
            gpus //= int(part.split("=")[1])
    return gpus


def accepts(strategy, flags):
    from deepspeed.runtime import config as deepspeed_config
    file = emit("deepspeed", "deepspeed", strategy, flags) / "ds_config.json"
    said = Watched(json.loads(file.read_text()))
    gpus = int(flags.get("--gpus", 8))
    # As many ranks, without starting them.
    deepspeed_config.dist.get_rank = lambda group=None: 0
    deepspeed_config.dist.get_world_size = lambda group=None: gpus
    read = deepspeed_config.DeepSpeedConfig(
        said, mpu=Grid(replicas(strategy, gpus)))
    expect("keys that DeepSpeed does not read",
           set(said) - said.asked - READ_EARLIER, set())
    expect("micro-batch", read.train_micro_batch_size_per_gpu,
           said["train_micro_batch_size_per_gpu"])
    expect("accumulation", read.gradient_accumulation_steps,
           said["gradient_accumulation_steps"])
    if "tp=" not in strategy:  # AutoTP: the class divides by tp later
        expect("batch", read.train_batch_size,
               int(flags.get("--global-batch", 64)))
    agrees(read, strategy, flags.get("--precision", "bf16"))


def agrees(read, strategy, precision):
    """What the class understood is what the strategy said."""
    words = dict(part.split("=") for part in strategy.split(","))
    zero = read.zero_config
    expect("stage", zero.stage, int(words["zero"]))
    expect("hpZ", zero.zero_hpz_partition_size, int(words.get("hpz", 1)))
    expect("MiCS", zero.mics_shard_size, int(words.get("shard", -1)))
    expect("qwZ", zero.zero_quantized_weights, "qw" in words)
    tier, _, also = words.get("offload", "none").partition("+")
    device = zero.offload_optimizer.device if zero.offload_optimizer else "none"
    expect("optimizer's device", str(getattr(device, "value", device)), tier)
    expect("parameters leave the device", zero.offload_param is not None,
           also == "parameters")
    expect("fp16", read.float16_config.enabled, precision == "fp16")
    expect("bf16", read.bfloat16_config.enabled, precision == "bf16")
    if "bucket" in words:
        expect("bucket", zero.reduce_bucket_size, int(float(words["bucket"])))


def trains(strategy, flags):
    """A plan of GPT-2 on two GPUs, its file unchanged but for the Adam of
    torch, since DeepSpeed's fused one is of CUDA."""
    small = {"--model": "gpt2", "--gpus": "2", "--seq": "128",
             "--global-batch": "8", **flags}
    file = emit("deepspeed", "deepspeed", strategy, small) / "ds_config.json"
    config = json.loads(file.read_text())
    config["optimizer"]["params"]["torch_adam"] = True
    file.write_text(json.dumps(config))
    return run_on_two("train_deepspeed.py", file)


def check_all():
    for strategy, flags in CONFIGURATIONS:
        check(f"DeepSpeedConfig of {name_of(strategy, flags)}", accepts,
              strategy, flags)
    for stage in range(4):
        strategy = f"zero={stage},micro=2,bucket=1e6"
        check(f"deepspeed.initialize of {strategy}", trains, strategy, {})
    check("deepspeed.initialize of zero=2,offload=cpu", trains,
          "zero=2,offload=cpu,micro=2", {})
    check("ztplan check of ds_config.json", is_read_back, "deepspeed",
          "deepspeed", "ds_config.json", "zero=3")
