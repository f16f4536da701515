"""A training script of a framework, without a line of ddprun's. A rank of three:

  hang_frameworks.py FRAMEWORK STEPS FAULT RANK STEP

FRAMEWORK: fsdp2, transformers, lightning. In the job's first round the rank RANK has the fault in that step, and writes "fault"
first. Faults: loop, deadlock, stop, sleep, other (a barrier that only this rank enters), skip, size (the metric over all ranks, after
every tenth step: left out, of another size).
"""
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from hang_faults import Faults, lock_twice, spin_forever, stop_here

FRAMEWORK, STEPS = sys.argv[1], int(sys.argv[2])
is_due = Faults(*sys.argv[3:6]).is_due
BATCH, FEATURES = 4, 8


def sleep_for_long():
    time.sleep(10_000)


def meet_alone():
    dist.barrier()


def sum_metric(size):
    dist.all_reduce(torch.ones(size))


def after_step(step):
    for fault, misbehave in {"loop": spin_forever, "deadlock": lock_twice, "stop": stop_here, "sleep": sleep_for_long,
                             "other": meet_alone}.items():
        if is_due(fault, step):
            misbehave()
    if step % 10 == 0 and not is_due("skip", step):
        sum_metric(5 if is_due("size", step) else 4)


def fsdp2():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("dp",))
    model = nn.Sequential(nn.Linear(FEATURES, 16), nn.ReLU(), nn.Linear(16, 3))
    for layer in model[0], model[2]:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        model(torch.ones(BATCH, FEATURES)).sum().backward()
        optimizer.step()
        after_step(step)


def transformers():
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

    class Steps(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            after_step(state.global_step)

    config = BertConfig(vocab_size=20, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
    samples = [{"input_ids": torch.arange(8), "labels": torch.tensor(i % 2)} for i in range(3 * BATCH * STEPS)]
    arguments = TrainingArguments("out", max_steps=STEPS, per_device_train_batch_size=BATCH, use_cpu=True, report_to=[],
                                  save_strategy="no", logging_strategy="no", disable_tqdm=True)
    Trainer(BertForSequenceClassification(config), arguments, train_dataset=samples, callbacks=[Steps()]).train()


def lightning():
    import pytorch_lightning as pl

    class Net(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(FEATURES, 3)

        def training_step(self, batch, index):
            return self.layer(batch[0]).sum()

        def on_train_batch_end(self, outputs, batch, index):
            after_step(index + 1)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.01)

    data = DataLoader(TensorDataset(torch.ones(3 * BATCH * STEPS, FEATURES)), BATCH)
    nodes = int(os.environ["WORLD_SIZE"]) // int(os.environ["LOCAL_WORLD_SIZE"])
    trainer = pl.Trainer(accelerator="cpu", devices=int(os.environ["LOCAL_WORLD_SIZE"]), num_nodes=nodes, strategy="ddp", max_epochs=1,
                         logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Net(), data)


if __name__ == "__main__":
    os.environ["HF_HUB_OFFLINE"] = "1"
    torch.set_num_threads(1)
    if FRAMEWORK == "fsdp2":
        dist.init_process_group("gloo")
    {"fsdp2": fsdp2, "transformers": transformers, "lightning": lightning}[FRAMEWORK]()
    print("done in round", os.environ["DDPRUN_ROUND"], flush=True)
    os._exit(0)  # threads of LibTorch may abort the interpreter's own end: pytorch/pytorch#179291
