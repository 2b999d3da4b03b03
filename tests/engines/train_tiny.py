"""One training step of a tiny model through deepspeed.initialize on CPUs.

usage: torchrun --nproc-per-node 2 train_tiny.py ds_config.json
"""

import sys

import deepspeed
import torch

model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(),
                            torch.nn.Linear(64, 64))
deepspeed.init_distributed(dist_backend="gloo")
engine, *_ = deepspeed.initialize(
    model=model, model_parameters=model.parameters(), config=sys.argv[1])
x = torch.randn(2, 64, dtype=torch.bfloat16)
loss = engine(x).float().square().mean()
engine.backward(loss)
engine.step()
assert torch.isfinite(loss)
print("trained")
