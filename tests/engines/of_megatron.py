"""args.sh: every argument is a field of Megatron Core's own dataclasses or one
of Megatron-LM's parser, the dataclasses can be made of them, each layer has a
stage, and the GPTModel that they describe has ztplan's number of parameters.

Megatron-LM's parser (megatron/training/arguments.py) is not in its package on
PyPI; what it does with an argument before Core sees it is repeated here.
"""

import dataclasses
import re
import shlex

from checks import check, emit, expect, is_read_back, name_of, parameters

PLANS = [
    ("zero=0", {}), ("zero=1", {}), ("zero=1,shard=4", {}),
    ("zero=1,bucket=4e7", {}), ("zero=1,overlap=0", {}),
    ("tp=2,zero=1", {}), ("tp=2,sp=1,zero=1", {}),
    ("cp=2,zero=1", {}), ("cp=2,cp_type=ulysses,zero=1", {}),
    ("pp=2,vpp=4,zero=1", {}), ("tp=2,pp=2,stages=15-17,zero=1", {}),
    ("pp=4,stages=7-8-9-8,zero=1", {}),
    ("zero=1,recompute=selective", {}), ("zero=1,recompute=full", {}),
    ("zero=1,recompute=full:8", {}), ("zero=1,offload=cpu", {}),
    ("zero=2", {}), ("zero=3", {}),
    ("zero=1", {"--precision": "fp16"}), ("zero=1", {"--precision": "fp8"}),
    ("zero=1", {"--grad-dtype": "bf16"}), ("zero=0", {"--optimizer": "sgd"}),
    ("ep=8,zero=1", {"--model": "mixtral-8x7b"}),
    ("tp=2,sp=1,ep=4,zero=1", {"--model": "qwen3-30b-a3b"}),
    ("tp=2,sp=1,ep=4,etp=2,zero=1", {"--model": "qwen3-30b-a3b"}),
    ("ep=4,etp=2,zero=1", {"--model": "mixtral-8x7b"}),
    ("pp=4,ep=8,zero=1", {"--model": "deepseek-v2", "--gpus": "32"}),
]

STAGES = [("pp=2", {}), ("pp=8", {}), ("pp=2,vpp=4", {}), ("pp=4,vpp=8", {}),
          ("pp=4,stages=7-8-9-8", {}), ("pp=4,stages=7-9-9-7", {}),
          ("pp=8", {"--model": "llama-13b", "--gpus": "16"}),
          ("pp=4,vpp=5", {"--model": "llama2-70b", "--gpus": "32"}),
          ("pp=8,vpp=2", {"--model": "gpt3-175b", "--gpus": "64"})]

COUNTED = ["llama3-8b", "llama3.2-1b", "llama2-70b", "qwen2.5-7b", "qwen3-8b",
           "gpt-neox-20b", "gemma-7b", "phi3-mini", "mistral-7b", "gpt3-175b",
           "gpt2-xl", "mixtral-8x7b", "qwen1.5-moe-a2.7b", "qwen3-30b-a3b",
           "deepseek-v2-lite", "deepseek-v2", "deepseek-v3", "kimi-k2",
           "glm4.5-air"]

# What ztplan says that the file cannot hold: not counted, but said.
UNSAID = {"gpt-oss-20b": "sinks", "olmoe-1b-7b": "norm", "phi3.5-moe": "bias"}

# Arguments of the parser that Core's dataclasses do not know.
PARSER = {"ckpt_format", "data_parallel_sharding_strategy", "ddp_bucket_size",
          "disable_bias_linear", "fp8_format", "grad_reduce_in_bf16",
          "global_batch_size", "group_query_attention",
          "make_vocab_size_divisible_by", "max_position_embeddings",
          "micro_batch_size", "mock_data", "num_experts",
          "num_virtual_stages_per_pipeline_rank", "position_embedding_type",
          "seq_length", "swiglu", "tokenizer_type", "train_iters",
          "untie_embeddings_and_output_weights", "use_megatron_fsdp",
          "vocab_size"}


def arguments_of(folder):
    text = (folder / "args.sh").read_text()
    body = "\n".join(re.findall(r"^\w+=\(\n(.*?)^\)", text, re.S | re.M))
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


def as_typed(value):
    if isinstance(value, str) and re.fullmatch(r"-?\d+", value):
        return int(value)
    if isinstance(value, str) and re.fullmatch(r"-?\d*\.?\d+(e-?\d+)?", value):
        return float(value)
    return value


def layer_pattern(text):
    """moe-layer-freq: a list in Python, as '([0]*3+[1]*58)'."""
    pattern = []
    for layer, times in re.findall(r"\[([01])\]\*(\d+)", text):
        pattern += [int(layer)] * int(times)
    return pattern


def fields(cls):
    return {field.name for field in dataclasses.fields(cls)}


def translated(arguments):
    """As core_transformer_config_from_args does it."""
    import torch
    values = {name: as_typed(value) for name, value in arguments.items()}
    dtype = torch.float16 if "fp16" in values else torch.bfloat16
    values |= {"params_dtype": dtype, "pipeline_dtype": dtype}
    values.setdefault("q_lora_rank", None)  # the parser's default
    if "num_experts" in values:
        values["num_moe_experts"] = values["num_experts"]
    if "moe_layer_freq" in values:
        values["moe_layer_freq"] = layer_pattern(values["moe_layer_freq"])
    if "recompute_modules" in values:
        values["recompute_modules"] = values["recompute_modules"].split()
    if "fp8_format" in values:
        values["fp8"] = values["fp8_format"]
    if "swiglu" in values:
        values |= {"gated_linear_unit": True,
                   "activation_func": torch.nn.functional.silu}
    if "disable_bias_linear" in values:
        values["add_bias_linear"] = False
    if "num_virtual_stages_per_pipeline_rank" in values:
        values["virtual_pipeline_model_parallel_size"] = values[
            "num_virtual_stages_per_pipeline_rank"]
    if "window_size" in values:
        values["window_size"] = tuple(map(int, values["window_size"].split(",")))
    values.pop("attention_backend", None)  # an enumeration; any is accepted
    # Of Transformer Engine, which needs a GPU; the parameters are the same.
    values.pop("moe_grouped_gemm", None)
    return values


def config_of(arguments, extra=None):
    from megatron.core.transformer import (MLATransformerConfig,
                                           TransformerConfig)
    cls = (MLATransformerConfig if "multi_latent_attention" in arguments
           else TransformerConfig)
    values = {**translated(arguments), **(extra or {})}
    known = fields(cls)
    return cls(**{key: value for key, value in values.items() if key in known})


def accepts(strategy, flags):
    from megatron.core.distributed import DistributedDataParallelConfig
    from megatron.core.optimizer import OptimizerConfig, optimizer_config
    from megatron.core.transformer import MLATransformerConfig
    # Transformer Engine needs a GPU; Core asks only for its version.
    optimizer_config.is_te_min_version = lambda version: True
    arguments = arguments_of(emit("megatron", "megatron", strategy, flags))
    known = (fields(MLATransformerConfig) | fields(OptimizerConfig) |
             fields(DistributedDataParallelConfig) | PARSER)
    expect("arguments that Megatron does not have", set(arguments) - known,
           set())
    config = config_of(arguments)
    values = translated(arguments)
    for cls in (OptimizerConfig, DistributedDataParallelConfig):
        cls(**{key: value for key, value in values.items()
               if key in fields(cls)})
    words = dict(part.split("=") for part in strategy.split(","))
    for word, field in (("tp", "tensor_model_parallel_size"),
                        ("pp", "pipeline_model_parallel_size"),
                        ("cp", "context_parallel_size"),
                        ("ep", "expert_model_parallel_size")):
        expect(field, getattr(config, field), int(words.get(word, 1)))
    expect("sequence_parallel", config.sequence_parallel, "sp" in words)
    if "ep" in words:  # Core makes it tp where nobody says
        expect("expert_tensor_parallel_size",
               config.expert_tensor_parallel_size, int(words.get("etp", 1)))


def layers_of_rank(config, rank):
    from megatron.core.transformer.enums import LayerType
    from megatron.core.transformer.transformer_block import (
        get_num_layers_to_build)
    layout = config.pipeline_model_parallel_layout
    if layout is not None:
        return sum(part.count(LayerType.decoder)
                   for part in layout.layout[rank])
    parts = config.virtual_pipeline_model_parallel_size
    return sum(get_num_layers_to_build(config, vp_stage=part, pp_rank=rank)
               for part in (range(parts) if parts else [None]))


def stages_hold_all(strategy, flags):
    config = config_of(arguments_of(
        emit("megatron", "megatron", strategy + ",zero=1", flags)))
    layers = [layers_of_rank(config, rank)
              for rank in range(config.pipeline_model_parallel_size)]
    expect("layers of all stages", sum(layers), config.num_layers)
    words = dict(part.split("=") for part in strategy.split(","))
    if "stages" in words:
        expect("layers of each stage", layers,
               [int(n) for n in words["stages"].split("-")])
    return "-".join(map(str, layers))


def start_alone():
    """One rank and no GPU: enough to build a model that is never run."""
    import torch
    from megatron.core import parallel_state
    from megatron.core.transformer.moe.token_dispatcher import (
        MoEAlltoAllTokenDispatcher)
    if not parallel_state.is_initialized():
        torch.distributed.init_process_group(
            "gloo", rank=0, world_size=1, store=torch.distributed.HashStore())
        parallel_state.initialize_model_parallel()
        MoEAlltoAllTokenDispatcher.cuda_dtoh_stream = object()
        torch.cuda.current_device = lambda: "meta"
        take_head_sizes()


def take_head_sizes():
    """Attention without Transformer Engine has no latent form. It has no
    parameters either, so the sizes of its heads may be ignored."""
    from megatron.core.transformer import multi_latent_attention
    from megatron.core.transformer.dot_product_attention import (
        DotProductAttention)
    if not isinstance(multi_latent_attention.TELinear, type):
        multi_latent_attention.TELinear = ()  # of which nothing is one
    plain = DotProductAttention.__init__

    def ignoring(self, *arguments, k_channels=None, v_channels=None, **named):
        plain(self, *arguments, **named)

    DotProductAttention.__init__ = ignoring


def built(arguments):
    import torch
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import (
        get_gpt_decoder_block_spec)
    start_alone()
    rope = {"rope_type": "rope"}  # yarn, the default of MLA, is not emitted
    with torch.device("meta"):
        config = config_of(arguments, {
            "use_cpu_initialization": True, "perform_initialization": False,
            **(rope if "multi_latent_attention" in arguments else {})})
        return GPTModel(
            config,
            get_gpt_decoder_block_spec(config, use_transformer_engine=False),
            int(arguments["vocab_size"]) + 1,  # of the NullTokenizer
            int(arguments["max_position_embeddings"]),
            share_embeddings_and_output_weights=(
                "untie_embeddings_and_output_weights" not in arguments),
            position_embedding_type=arguments["position_embedding_type"])


def same_count(model):
    arguments = arguments_of(emit("megatron", "megatron", "zero=1",
                                  {"--model": model, "--seq": "1024"}))
    model_of_core = built(arguments)
    count = sum(p.numel() for p in model_of_core.parameters())
    expect("parameters of ztplan", parameters(model), count)
    return f"{count:,} parameters"


def says_what_is_missing(model, word):
    """Core builds another model of the arguments, so emit must say so."""
    import json
    import subprocess

    from checks import USUAL, ZTPLAN, folder
    words = [word for pair in {**USUAL, "--model": model}.items()
             for word in pair]
    answer = json.loads(subprocess.run(
        [ZTPLAN, "emit", *words, "--engine", "megatron", "--strategy",
         "zero=1", "--target", "megatron", "-o", str(folder()), "--force",
         "--json"], capture_output=True, text=True).stdout)
    unsaid = answer.get("unsaid", [])
    if not any(word in entry for entry in unsaid):
        raise AssertionError(f"nothing unsaid about {word}: {unsaid}")


def check_all():
    for strategy, flags in PLANS:
        check(f"Megatron's dataclasses of {name_of(strategy, flags)}", accepts,
              strategy, flags)
    for strategy, flags in STAGES:
        check(f"Megatron's stages of {name_of(strategy, flags)}",
              stages_hold_all, strategy, flags)
    for model in COUNTED:
        check(f"Megatron's GPTModel of {model}", same_count, model)
    for model, word in UNSAID.items():
        check(f"emit for Megatron says what it leaves out of {model}",
              says_what_is_missing, model, word)
    check("ztplan check of args.sh", is_read_back, "megatron", "megatron",
          "args.sh", "zero=1")
