"""Checks of emitted configurations by the engines that read them.

usage: check.py ZTPLAN

One line a check, then "N passed, N failed".
"""

import json
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ZTPLAN = str(Path(sys.argv[1]).resolve())
HERE = Path(__file__).resolve().parent
passed = failed = 0


def check(name, test):
    """Runs `test`; what it raises is the failure."""
    global passed, failed
    try:
        told = test()
        passed += 1
        print(f"ok    {name}{': ' + told if told else ''}", flush=True)
    except BaseException as problem:  # engines call sys.exit
        failed += 1
        first = (str(problem) or repr(problem)).strip().splitlines()[0]
        print(f"FAIL  {name}: {first[:200]}", flush=True)


def ztplan(*words):
    result = subprocess.run([ZTPLAN, *words], capture_output=True, text=True)
    if result.returncode not in (0, 3):
        raise RuntimeError(result.stderr or result.stdout)
    return result.stdout


def emit(target, engine, strategy, *more):
    """The folder of an emitted plan of Llama 3 8B on eight GPUs."""
    folder = tempfile.mkdtemp(prefix=f"ztplan-{target}-")
    ztplan("emit", "--model", "llama3-8b", "--gpus", "8", "--seq", "2048",
           "--global-batch", "64", "--engine", engine, "--strategy", strategy,
           "--target", target, "-o", folder, "--force", "-q", *more)
    return Path(folder)


# ------------------------------------------------------------- transformers

def architectures():
    """Twenty architectures with the shapes their configurations default to,
    made small in depth alone: every part of a layer is counted."""
    import transformers as t
    return {
        "gpt2": t.GPT2Config(n_layer=3),
        "gpt_neox": t.GPTNeoXConfig(num_hidden_layers=3),
        "gptj": t.GPTJConfig(n_layer=3),
        "opt": t.OPTConfig(num_hidden_layers=3),
        "bloom": t.BloomConfig(n_layer=3, hidden_size=1024, n_head=16),
        "llama": t.LlamaConfig(num_hidden_layers=3),
        "llama_gqa": t.LlamaConfig(num_hidden_layers=3, num_key_value_heads=8,
                                   vocab_size=128256,
                                   intermediate_size=14336),
        "mistral": t.MistralConfig(num_hidden_layers=3),
        "mixtral": t.MixtralConfig(num_hidden_layers=2),
        "qwen2": t.Qwen2Config(num_hidden_layers=3),
        "qwen2_moe": t.Qwen2MoeConfig(num_hidden_layers=2),
        "qwen3": t.Qwen3Config(num_hidden_layers=3),
        "qwen3_moe": t.Qwen3MoeConfig(num_hidden_layers=2),
        "gemma": t.GemmaConfig(num_hidden_layers=3),
        "gemma2": t.Gemma2Config(num_hidden_layers=3),
        "phi": t.PhiConfig(num_hidden_layers=3),
        "phi3": t.Phi3Config(num_hidden_layers=3),
        "falcon": t.FalconConfig(num_hidden_layers=3),
        "olmo2": t.Olmo2Config(num_hidden_layers=3),
        "olmo": t.OlmoConfig(num_hidden_layers=3),
        "deepseek_v3": t.DeepseekV3Config(num_hidden_layers=4),
        "gpt_oss": t.GptOssConfig(num_hidden_layers=2),
    }


def count_parameters(config):
    import torch
    import transformers as t
    with torch.device("meta"):
        model = t.AutoModelForCausalLM.from_config(config)
    return sum(p.numel() for p in model.parameters())


def same_count(config):
    folder = tempfile.mkdtemp(prefix="ztplan-config-")
    config.save_pretrained(folder)
    theirs = count_parameters(config)
    answer = json.loads(ztplan(
        "memory", "--model", f"{folder}/config.json", "--gpus", "1", "--seq",
        "128", "--global-batch", "1", "--engine", "native", "--strategy",
        "micro=1", "--json"))
    ours = answer["model"]["parameters"]
    if ours != theirs:
        raise AssertionError(f"{ours} parameters, transformers has {theirs}")
    return f"{ours:,} parameters"


# ---------------------------------------------------------------- DeepSpeed

DEEPSPEED = ["zero=0", "zero=1", "zero=2", "zero=3", "zero=3,shard=4",
             "zero=3,hpz=4", "zero=3,qw=1,compress=quantized",
             "zero=2,offload=cpu", "zero=3,offload=cpu+parameters",
             "zero=3,offload=nvme+parameters", "tp=2,zero=2",
             "zero=0,compress=onebit", "zero=2,overlap=1,bucket=1e8"]


def deepspeed_accepts(strategy, *more):
    from deepspeed.runtime import config as deepspeed_config
    folder = emit("deepspeed", "deepspeed", strategy, *more)
    path = folder / "ds_config.json"
    # Eight ranks, without starting them.
    deepspeed_config.dist.get_rank = lambda group=None: 0
    deepspeed_config.dist.get_world_size = lambda group=None: 8
    config = deepspeed_config.DeepSpeedConfig(str(path))
    said = json.loads(path.read_text())
    assert config.train_micro_batch_size_per_gpu == said[
        "train_micro_batch_size_per_gpu"]
    if "tp=" not in strategy:  # there the product is of the whole world
        assert config.train_batch_size == 64, config.train_batch_size
    assert config.zero_optimization_stage == said["zero_optimization"]["stage"]


def deepspeed_trains(stage):
    folder = emit("deepspeed", "deepspeed", f"zero={stage}")
    path = folder / "ds_config.json"
    config = json.loads(path.read_text())
    config["train_batch_size"] = 4
    config["train_micro_batch_size_per_gpu"] = 2
    config["gradient_accumulation_steps"] = 1
    for key in ("reduce_bucket_size", "allgather_bucket_size"):
        if key in config["zero_optimization"]:
            config["zero_optimization"][key] = 1_000_000
    config["optimizer"]["params"]["torch_adam"] = True
    path.write_text(json.dumps(config))
    result = subprocess.run(
        ["torchrun", "--standalone", "--nproc-per-node", "2",
         str(HERE / "train_tiny.py"), str(path)],
        capture_output=True, text=True, timeout=600)
    if result.returncode != 0 or "trained" not in result.stdout:
        raise RuntimeError(result.stderr.strip().splitlines()[-1]
                           if result.stderr else "no output")
    return "two processes, one step"


# ----------------------------------------------------------------- Megatron

MEGATRON = ["zero=1", "tp=2,sp=1,zero=1", "pp=2,vpp=4,zero=1",
            "tp=2,pp=2,stages=15-17,zero=1", "cp=2,zero=1",
            "zero=1,recompute=selective", "zero=1,recompute=full:8",
            "zero=1,offload=cpu", "zero=3"]


def arguments_of(folder):
    text = (folder / "args.sh").read_text()
    body = text[text.index("ARGS=(") + 6:text.rindex(")")]
    arguments, flag = {}, None
    for word in shlex.split(body, comments=True):
        if word.startswith("--"):
            flag = word[2:].replace("-", "_")
            arguments[flag] = True
        elif arguments[flag] is True:
            arguments[flag] = word
        else:
            arguments[flag] += " " + word
    return arguments


def megatron_accepts(strategy, *more):
    import dataclasses

    import torch
    from megatron.core.transformer import TransformerConfig
    arguments = arguments_of(emit("megatron", "megatron", strategy, *more))
    fields = {field.name for field in dataclasses.fields(TransformerConfig)}
    names = {"swiglu": "gated_linear_unit",
             "group_query_attention": None,
             "disable_bias_linear": ("add_bias_linear", False),
             "num_virtual_stages_per_pipeline_rank":
                 "virtual_pipeline_model_parallel_size"}
    values = {"pipeline_dtype": torch.bfloat16, "bf16": True,
              "params_dtype": torch.bfloat16}
    for name, value in arguments.items():
        name = names.get(name, name)
        if isinstance(name, tuple):
            name, value = name
        if name not in fields or name == "attention_backend":
            continue
        if isinstance(value, str) and re.fullmatch(r"-?\d+", value):
            value = int(value)
        if name == "recompute_modules":
            value = value.split()
        values[name] = value
    config = TransformerConfig(**values)
    assert config.num_layers == 32
    return f"{len(values)} fields"


# ---------------------------------------------------- accelerate, torchtitan

FSDP = ["zero=3", "zero=2", "zero=3,shard=4", "tp=2,zero=3", "cp=2,zero=3",
        "zero=3,offload=cpu+parameters", "zero=3,recompute=full"]


def accelerate_accepts(strategy):
    from accelerate.commands.config.config_args import load_config_from_file
    folder = emit("accelerate", "fsdp", strategy)
    config = load_config_from_file(str(folder / "accelerate.yaml"))
    assert config.num_processes == 8
    assert str(config.distributed_type).endswith("FSDP")
    reshard = config.fsdp_config["fsdp_reshard_after_forward"]
    assert reshard == strategy.count("zero=3"), reshard


def torchtitan_accepts(strategy):
    from torchtitan.config import ConfigManager
    folder = emit("torchtitan", "fsdp", strategy)
    config = ConfigManager().parse_args(
        ["--job.config_file", str(folder / "train.toml")])
    assert config.training.seq_len == 2048


def read_back(target, engine, strategy):
    """Every file that an engine accepts is read back as it was sent."""
    folder = emit(target, engine, strategy)
    name = {"deepspeed": "ds_config.json", "megatron": "args.sh",
            "accelerate": "accelerate.yaml", "torchtitan": "train.toml"}
    ztplan("check", str(folder / name[target]), "--model", "llama3-8b",
           "--gpus", "8", "--seq", "2048")


def main():
    for name, config in architectures().items():
        check(f"transformers {name}", lambda: same_count(config))
    for strategy in DEEPSPEED:
        check(f"deepspeed config {strategy}",
              lambda: deepspeed_accepts(strategy))
    check("deepspeed config fp16",
          lambda: deepspeed_accepts("zero=2", "--precision", "fp16"))
    for stage in range(4):
        check(f"deepspeed initialize stage {stage}",
              lambda: deepspeed_trains(stage))
    for strategy in MEGATRON:
        check(f"megatron config {strategy}", lambda: megatron_accepts(strategy))
    for strategy in FSDP:
        check(f"accelerate config {strategy}",
              lambda: accelerate_accepts(strategy))
    for strategy in FSDP:
        check(f"torchtitan config {strategy}",
              lambda: torchtitan_accepts(strategy))
    for target, engine in (("deepspeed", "deepspeed"),
                           ("megatron", "megatron"), ("accelerate", "fsdp"),
                           ("torchtitan", "fsdp")):
        zero = "zero=1" if engine == "megatron" else "zero=3"
        check(f"ztplan check of {target}",
              lambda: read_back(target, engine, zero))
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
