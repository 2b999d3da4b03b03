"""Steps of a tiny model through deepspeed.initialize on CPUs: the loss must
fall, so the optimizer has stepped.

usage: torchrun --nproc-per-node 2 train_deepspeed.py ds_config.json
"""

import json
import sys
from pathlib import Path

import deepspeed
import torch

STEPS = 3

config = json.loads(Path(sys.argv[1]).read_text())
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(),
                            torch.nn.Linear(64, 64))
deepspeed.init_distributed(dist_backend="gloo")
engine, *_ = deepspeed.initialize(
    model=model, model_parameters=model.parameters(), config=sys.argv[1])
assert engine.zero_optimization_stage() == config["zero_optimization"]["stage"]
assert engine.train_batch_size() == config["train_batch_size"]
x = torch.randn(config["train_micro_batch_size_per_gpu"], 64,
                dtype=torch.bfloat16)
losses = []
for _ in range(STEPS):
    for _ in range(config["gradient_accumulation_steps"]):
        loss = engine(x).float().square().mean()
        engine.backward(loss)
        engine.step()
    losses.append(loss.item())
assert engine.global_steps == STEPS, engine.global_steps
assert losses[-1] < losses[0], losses
if engine.global_rank == 0:
    print(f"told: {STEPS} steps, loss {losses[0]:.4f} to {losses[-1]:.4f}",
          flush=True)
