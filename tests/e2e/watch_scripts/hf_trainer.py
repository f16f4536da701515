"""transformers' Trainer with a tiny GPT-2 from a configuration, evaluation and a saved model."""
import os
import sys
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from weights import digest


class Tokens(torch.utils.data.Dataset):
    def __init__(self, size, seed):
        generator = torch.Generator().manual_seed(seed)
        self.data = torch.randint(0, 64, (size, 16), generator=generator).cumsum(1) % 64

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return {"input_ids": self.data[index], "labels": self.data[index]}


class Printer(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **_):
        if state.is_world_process_zero:
            print({key: round(value, 6) for key, value in logs.items() if "loss" in key or key == "epoch"})


def main(steps):
    torch.manual_seed(23)
    config = GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(folder, use_cpu=True, per_device_train_batch_size=8, max_steps=steps, logging_steps=steps // 4,
                                 eval_strategy="steps", eval_steps=steps // 2, save_strategy="no", report_to=[], seed=23, disable_tqdm=True,
                                 gradient_accumulation_steps=2)
        trainer = Trainer(GPT2LMHeadModel(config), args, train_dataset=Tokens(400, 1), eval_dataset=Tokens(64, 2), callbacks=[Printer()])
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        trainer.save_model(folder)
        print(f"rank {os.environ['RANK']}: weights {digest(trainer.model)}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
    torch.distributed.destroy_process_group()
