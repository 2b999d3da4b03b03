"""Steps of a tiny model that the emitted fsdp.py shards, on CPUs: each rank
must hold the part of the plan, recompute where the plan does, and learn.

usage: torchrun --nproc-per-node 2 train_fsdp.py FOLDER
"""

import sys

import torch

sys.path.insert(0, sys.argv[1])
import fsdp  # noqa: E402

STEPS = 3
calls = 0


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(64, 64)

    def forward(self, x):
        global calls
        calls += 1
        return x + torch.nn.functional.gelu(self.layer(x))


torch.distributed.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Sequential(Block(), Block())
whole = sum(p.numel() for p in model.parameters())
model = fsdp.shard(model, list(model), mesh=fsdp.device_mesh("cpu"))
held = sum(p.to_local().numel() for p in model.parameters())
ways = fsdp.PLAN["mesh"]["dp_shard"]
assert held * ways == whole, (
    f"a rank holds {held} of {whole} parameters, the plan shards {ways} ways")

optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
x = torch.randn(fsdp.PLAN["micro_batch"], 64)
losses = []
for _ in range(STEPS):
    loss = model(x).float().square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())
assert losses[-1] < losses[0], losses
forwards = calls / STEPS / len(model)
wanted = 2 if fsdp.PLAN["recompute"] == "full" else 1
assert forwards == wanted, (
    f"{forwards} forward passes a block, recompute={fsdp.PLAN['recompute']}")
if torch.distributed.get_rank() == 0:
    print(f"told: {held} of {whole} parameters a rank, "
          f"loss {losses[0]:.4f} to {losses[-1]:.4f}", flush=True)
torch.distributed.destroy_process_group()
