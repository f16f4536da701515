"""transformers' Trainer: a small Llama learns to count. No line is about ddprun; with --watch it also saves before a preemption.

  ddprun --nproc_per_node=2 --watch train.py [STEPS]
"""
import glob
import os
import re
import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

NUMBERS, LENGTH = 32, 16


class Counting(torch.utils.data.Dataset):
    """Each sample: LENGTH numbers from a random one on, modulo NUMBERS."""

    def __init__(self, size):
        first = torch.randint(NUMBERS, (size, 1), generator=torch.Generator().manual_seed(0))
        self.rows = (first + torch.arange(LENGTH)) % NUMBERS

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return {"input_ids": self.rows[index], "labels": self.rows[index]}


def newest_checkpoint():
    """The newest one that is complete: trainer_state.json is written last."""
    complete = [os.path.dirname(file) for file in glob.glob("out/checkpoint-*/trainer_state.json")]
    return max(complete, key=lambda folder: int(re.search(r"\d+$", folder)[0]), default=None)


def main(steps):
    options = TrainingArguments("out", max_steps=steps, per_device_train_batch_size=8, learning_rate=3e-3, seed=1,
                                save_steps=50, save_total_limit=2, logging_steps=20, report_to="none", disable_tqdm=True,
                                ddp_find_unused_parameters=False,
                                use_cpu=not torch.cuda.is_available())  # else each rank without a GPU would train alone
    torch.manual_seed(1)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=NUMBERS, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                                         num_attention_heads=2, max_position_embeddings=LENGTH))
    trainer = Trainer(model, options, train_dataset=Counting(2048))
    checkpoint = newest_checkpoint()
    if checkpoint and trainer.is_world_process_zero():
        print(f"going on from {checkpoint}")
    trainer.train(resume_from_checkpoint=checkpoint)
    trainer.save_model("out/final")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
