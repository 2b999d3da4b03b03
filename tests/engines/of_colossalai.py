"""colossalai.json: the plugin that it names takes each argument.

The package asks for a torch that the other engines do not run on, so it is
installed without what it needs and never imported: its source is read.
"""

import ast
import json
from importlib import metadata

from checks import check, emit, expect, is_read_back, name_of

PLANS = [
    ("zero=0", {}), ("zero=1", {}), ("zero=2", {}), ("zero=3", {}),
    ("zero=1,offload=cpu", {}), ("zero=2,bucket=1e7", {}),
    ("zero=3,offload=cpu+parameters", {}), ("zero=2,comm=fp32", {}),
    ("tp=2,zero=1", {}), ("tp=2,sp=1,zero=1", {}), ("tp=2,zero=3", {}),
    ("cp=2,zero=1", {}), ("cp=2,cp_type=ulysses,zero=1", {}),
    ("pp=2,zero=1", {}), ("pp=2,vpp=2,zero=1", {}),
    ("zero=1", {"--precision": "fp16"}), ("zero=1", {"--precision": "fp32"}),
    ("ep=2,zero=1", {"--model": "mixtral-8x7b"}),
]
FOLDER = "colossalai/booster/plugin"
FILES = {"LowLevelZeroPlugin": "low_level_zero_plugin.py",
         "GeminiPlugin": "gemini_plugin.py",
         "HybridParallelPlugin": "hybrid_parallel_plugin.py",
         "MoeHybridParallelPlugin": "moe_hybrid_parallel_plugin.py"}


def signature(plugin):
    """Names of its constructor, and those without a default."""
    file = metadata.distribution("colossalai").locate_file(
        f"{FOLDER}/{FILES[plugin]}")
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ClassDef) and node.name == plugin:
            made = next(part for part in node.body
                        if getattr(part, "name", "") == "__init__").args
            break
    names = [argument.arg for argument in made.args[1:]]
    required = set(names[:len(names) - len(made.defaults)])
    if made.kwarg:  # hands the rest to its parent
        more, needs = signature("HybridParallelPlugin")
        return set(names) | more, required | needs
    return set(names), required


def accepts(strategy, flags):
    told = json.loads((emit("colossalai", "colossalai", strategy, flags) /
                       "colossalai.json").read_text())
    names, required = signature(told["plugin"])
    given = set(told["arguments"])
    expect("arguments that it does not have", given - names, set())
    expect("arguments that it lacks", required - given, set())
    return told["plugin"]


def check_all():
    for strategy, flags in PLANS:
        check(f"Colossal-AI's plugin of {name_of(strategy, flags)}", accepts,
              strategy, flags)
    check("ztplan check of colossalai.json", is_read_back,
          "colossalai", "colossalai", "colossalai.json", "zero=1")
