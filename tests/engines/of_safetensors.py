"""Weights through ztplan's names and back (rewrite_weights), by the
safetensors package: every tensor must come back bit for bit. With torch,
transformers' own tiny models must compute the same from what is written."""

import subprocess

from checks import ROOT, check, expect, folder

PROGRAM = ROOT / "build/rewrite_weights"
LAYERS, HIDDEN, WIDTH, VOCAB, EXPERTS = 2, 8, 24, 32, 3


def pairs(family):
    """(ours, theirs, shape of theirs), written out by hand."""
    h, w = HIDDEN, WIDTH
    if family == "gpt2":
        yield "embedding.weight", "transformer.wte.weight", (VOCAB, h)
        yield "positions.weight", "transformer.wpe.weight", (16, h)
        yield "final_norm.weight", "transformer.ln_f.weight", (h,)
        yield "final_norm.bias", "transformer.ln_f.bias", (h,)
        for n in range(LAYERS):
            ours, theirs = f"layers.{n}", f"transformer.h.{n}"
            for kind, columns in (("weight", True), ("bias", False)):
                def shape(*sizes):
                    return sizes if columns else sizes[1:]
                for i in (1, 2):
                    yield (f"{ours}.norm{i}.{kind}",
                           f"{theirs}.ln_{i}.{kind}", (h,))
                for part in "qkv":
                    yield (f"{ours}.attention.{part}.{kind}",
                           f"{theirs}.attn.c_attn.{kind}", shape(h, 3 * h))
                yield (f"{ours}.attention.o.{kind}",
                       f"{theirs}.attn.c_proj.{kind}", shape(h, h))
                yield (f"{ours}.mlp.up.{kind}", f"{theirs}.mlp.c_fc.{kind}",
                       shape(h, w))
                yield (f"{ours}.mlp.down.{kind}",
                       f"{theirs}.mlp.c_proj.{kind}", shape(w, h))
        return
    yield "embedding.weight", "model.embed_tokens.weight", (VOCAB, h)
    yield "final_norm.weight", "model.norm.weight", (h,)
    yield "head.weight", "lm_head.weight", (VOCAB, h)
    for n in range(LAYERS):
        ours, theirs = f"layers.{n}", f"model.layers.{n}"
        yield f"{ours}.norm1.weight", f"{theirs}.input_layernorm.weight", (h,)
        yield (f"{ours}.norm2.weight",
               f"{theirs}.post_attention_layernorm.weight", (h,))
        for part, rows in (("q", h), ("k", h // 2), ("v", h // 2), ("o", h)):
            yield (f"{ours}.attention.{part}.weight",
                   f"{theirs}.self_attn.{part}_proj.weight", (rows, h))
        yield from mlp_pairs(family, ours, theirs)


def mlp_pairs(family, ours, theirs):
    shapes = {"gate": (WIDTH, HIDDEN), "up": (WIDTH, HIDDEN),
              "down": (HIDDEN, WIDTH)}
    if family == "llama":
        for part, shape in shapes.items():
            yield (f"{ours}.mlp.{part}.weight",
                   f"{theirs}.mlp.{part}_proj.weight", shape)
        return
    mixtral = family == "mixtral"
    block = f"{theirs}." + ("block_sparse_moe" if mixtral else "mlp")
    yield f"{ours}.router.weight", f"{block}.gate.weight", (EXPERTS, HIDDEN)
    for part, shape in shapes.items():
        file_part = ({"gate": "w1", "up": "w3", "down": "w2"}[part]
                     if mixtral else f"{part}_proj")
        for e in range(EXPERTS):
            yield (f"{ours}.experts.{e}.{part}.weight",
                   f"{block}.experts.{e}.{file_part}.weight", shape)
        if not mixtral:
            yield (f"{ours}.shared.{part}.weight",
                   f"{block}.shared_expert.{file_part}.weight", shape)


def rewrite(family, source, target, ours):
    result = subprocess.run(
        [PROGRAM, family, source, target], capture_output=True, text=True,
        input="".join(f"{name}\n" for name in ours))
    if result.returncode != 0:
        raise RuntimeError(result.stderr)
    return result.stdout.split()


def comes_back(family, dtype):
    import numpy
    from safetensors.numpy import load_file, save_file
    random_numbers = numpy.random.default_rng(1)
    names = list(pairs(family))
    tensors = {theirs: random_numbers.normal(size=shape).astype(dtype)
               for _, theirs, shape in names}
    made = folder()
    save_file(tensors, made / "model.safetensors")
    left = rewrite(family, made, made / "again.safetensors",
                   [ours for ours, _, _ in names])
    expect("what is left over", left, [])
    again = load_file(made / "again.safetensors")
    expect("names", sorted(again), sorted(tensors))
    for name, tensor in tensors.items():
        expect(f"dtype of {name}", again[name].dtype, tensor.dtype)
        expect(f"{name} is the same",
               numpy.array_equal(again[name], tensor), True)
    return f"{len(tensors)} tensors"


def computes_the_same(family, ours):
    import torch
    import transformers
    if family == "gpt2":
        config = transformers.GPT2Config(
            vocab_size=VOCAB, n_embd=HIDDEN, n_layer=LAYERS, n_head=2,
            n_inner=WIDTH, n_positions=16)
    else:
        config = transformers.LlamaConfig(
            vocab_size=VOCAB, hidden_size=HIDDEN, num_hidden_layers=LAYERS,
            num_attention_heads=2, num_key_value_heads=1,
            intermediate_size=WIDTH)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    source, target = folder(), folder()
    model.save_pretrained(source)
    config.save_pretrained(target)
    rewrite(family, source, target / "model.safetensors", ours)
    again = transformers.AutoModelForCausalLM.from_pretrained(target).eval()
    tokens = torch.arange(12).reshape(2, 6)
    with torch.no_grad():
        expect("logits are the same",
               torch.equal(model(tokens).logits, again(tokens).logits), True)


def check_all():
    for family in ("gpt2", "llama", "mixtral", "qwen2_moe"):
        for dtype in ("float32", "float16"):
            check(f"safetensors of {family} in {dtype}", comes_back, family,
                  dtype)
    try:
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as missing:
        print(f"skip  logits of rewritten weights: {missing}", flush=True)
        return
    for family in ("gpt2", "llama"):
        check(f"logits of {family} from rewritten weights", computes_the_same,
              family, [ours for ours, _, _ in pairs(family)])
