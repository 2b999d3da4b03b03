"""Parameter counts of transformers' models on the meta device against
ztplan's reading of their config.json: of published models at full size, and
of each family with its keys drawn at random."""

import dataclasses
import json
import random

from checks import ROOT, check, expect, folder, parameters

FAMILIES = [
    "bloom", "deepseek_v2", "deepseek_v3", "falcon", "gemma", "gemma2",
    "gemma3_text", "glm4", "glm4_moe", "gpt2", "gpt_neox", "gpt_oss", "gptj",
    "llama", "llama4_text", "mistral", "mixtral", "mpt", "nemotron", "olmo",
    "olmo2", "olmoe", "opt", "phi", "phi3", "phimoe", "qwen2", "qwen2_moe",
    "qwen3", "qwen3_moe", "smollm3", "starcoder2", "t5"]

DRAWS = 12  # of each family

# Always given, so that a model is small. A family takes the keys it has.
SIZES = {
    "hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 8,
    "intermediate_size": 320, "ffn_dim": 320, "d_ff": 200, "n_embd": 128,
    "n_layer": 4, "n_head": 8, "n_layers": 4, "n_heads": 8, "d_model": 128,
    "num_heads": 8, "num_layers": 3, "num_experts_per_tok": 2}

BOTH = [True, False]
# Given half the time.
CHOICES = {
    "_remove_final_layer_norm": BOTH, "alibi": BOTH, "attention_bias": BOTH,
    "bias": BOTH, "clip_qkv": [None, 8.0], "d_kv": [16, 20],
    "decoder_sparse_step": [1, 2], "do_layer_norm_before": BOTH,
    "enable_bias": BOTH, "feed_forward_proj": ["relu", "gated-gelu"],
    "ffn_hidden_size": [None, 300], "first_k_dense_replace": [0, 1, 2],
    "head_dim": [16, 24], "interleave_moe_layer_step": [1, 2],
    "intermediate_size_mlp": [88], "kv_lora_rank": [16],
    "layer_norm_elementwise_affine": BOTH, "lm_head_bias": BOTH,
    "max_position_embeddings": [256, 1000], "mlp_only_layers": [[], [0], [1, 2]],
    "moe_intermediate_size": [40], "multi_query": BOTH, "n_group": [1],
    "n_inner": [None, 200], "n_positions": [256],
    "n_routed_experts": [8, 16], "n_shared_experts": [1, 2],
    "new_decoder_architecture": BOTH, "num_decoder_layers": [None, 2],
    "num_experts": [4, 8], "num_kv_heads": [1, 2, 8],
    "num_key_value_heads": [1, 2, 4],
    "num_ln_in_parallel_attn": [None, 1, 2], "num_local_experts": [4, 8],
    "parallel_attn": BOTH, "q_lora_rank": [None, 24], "qk_layernorm": BOTH,
    "qk_nope_head_dim": [8, 16], "qk_rope_head_dim": [8], "qkv_bias": BOTH,
    "relative_attention_num_buckets": [16, 32], "rotary_dim": [8],
    "shared_expert_intermediate_size": [0, 56], "tie_word_embeddings": BOTH,
    "topk_group": [1], "use_bias": BOTH, "use_parallel_residual": BOTH,
    "use_qk_norm": BOTH, "v_head_dim": [8, 16], "word_embed_proj_dim": [64],
    "vocab_size": [500, 1000]}

# Their keys of size have other names in the file than in the class, and the
# default number of heads of a family need not suit a small model.
ALWAYS = {
    "bloom": {"hidden_size": 128, "n_head": 8, "n_layer": 4},
    "falcon": {"hidden_size": 128, "num_attention_heads": 8,
               "num_hidden_layers": 4},
    "gemma": {"num_key_value_heads": 2}, "qwen2": {"num_key_value_heads": 4},
    "qwen2_moe": {"num_key_value_heads": 4},
    "qwen3": {"num_key_value_heads": 2}, "glm4": {"pad_token_id": 0},
    "nemotron": {"num_key_value_heads": 4},  # none: its class fails
    "phi3": {"pad_token_id": 0}, "smollm3": {"pad_token_id": 0}}


def count(config):
    import torch
    import transformers
    if config.model_type == "t5":
        make = transformers.T5ForConditionalGeneration
    else:
        make = transformers.AutoModelForCausalLM.from_config
        config = config.get_text_config(decoder=True)
    with torch.device("meta"):
        return sum(p.numel() for p in make(config).parameters())


def class_of(model_type):
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    return CONFIG_MAPPING[model_type]


def same_published(row):
    # Rotation has no parameters, and the rows leave part of its keys out.
    keys = {key: value for key, value in row["config"].items()
            if not key.startswith("rope")}
    config = class_of(keys["model_type"]).from_dict(dict(keys))
    theirs = count(config)
    made = folder()
    config.save_pretrained(made)
    (made / "published.json").write_text(json.dumps(row["config"]))
    for file in ("config.json", "published.json"):
        expect(f"parameters of {file}", parameters(made / file), theirs)
    return f"{theirs:,} parameters"


def draw(family, random_keys):
    known = {field.name for field in dataclasses.fields(class_of(family))}
    keys = {key: value for key, value in SIZES.items() if key in known}
    for key, values in CHOICES.items():
        if key in known and random_keys.random() < 0.5:
            keys[key] = random_keys.choice(values)
    return {**keys, **ALWAYS.get(family, {})}


def same_drawn(family):
    random_keys = random.Random(family)
    for _ in range(DRAWS):
        keys = draw(family, random_keys)
        config = class_of(family)(**keys)
        theirs = count(config)
        made = folder()
        config.save_pretrained(made)
        (made / "drawn.json").write_text(
            json.dumps({"model_type": family, **keys}))
        for file in ("config.json", "drawn.json"):
            expect(f"parameters of {file} of {json.dumps(keys)}",
                   parameters(made / file), theirs)
    return f"{DRAWS} draws"


def check_all():
    import transformers
    transformers.logging.set_verbosity_error()
    published = json.loads(
        (ROOT / "tests/published/hf_configs.json").read_text())["configs"]
    for row in published:
        check(f"transformers count of {row['model']}", same_published, row)
    for family in FAMILIES:
        check(f"transformers counts of {family}", same_drawn, family)
