"""FullyShardedDataParallel with an auto-wrap policy, and the full state dict on rank 0."""
import functools
import sys

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullStateDictConfig, FullyShardedDataParallel as FSDP, StateDictType
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy

from transformer import Block, Transformer, next_token_loss, random_tokens


def main(steps):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(11)
    policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={Block})
    model = FSDP(Transformer(), auto_wrap_policy=policy, device_id=torch.device("cpu"))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(rank)
    for step in range(steps):
        optimizer.zero_grad()
        tokens = random_tokens(8, 16, generator)
        loss = next_token_loss(model(tokens), tokens)
        loss.backward()
        model.clip_grad_norm_(1.0)
        optimizer.step()
        if rank == 0 and step % 10 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    model.eval()
    with torch.no_grad():
        print(f"rank {rank}: valid loss {next_token_loss(model(tokens), tokens).item():.6f}")
    with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, FullStateDictConfig(offload_to_cpu=True, rank0_only=True)):
        state = model.state_dict()
    if rank == 0:
        print(f"{len(state)} tensors, sum {sum(tensor.double().sum().item() for tensor in state.values()):.10f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
