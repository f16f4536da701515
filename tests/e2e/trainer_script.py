"""A training script as people write it with a trainer: no line of it is about ddprun.

  trainer_script.py transformers|lightning|accelerate [WORD...]

WORD: unsaved (the trainer may write no checkpoint), handler (the script has a handler of SIGTERM), accumulated (two batches make a
step), longer (it has other work when it has trained).
It goes on from the last checkpoint where there is one. With a number in the file "hold" rank 0 says so after as many steps,
and waits until the file is gone. At the end it prints a hash of the weights.
"""
import copy
import glob
import hashlib
import os
import pickle
import signal
import sys
import time
import traceback

import torch
from torch.utils.data import DataLoader, Dataset

KIND, WORDS = sys.argv[1], sys.argv[2:]
EPOCHS, STEPS_PER_EPOCH, BATCH, TOKENS = 2, 60, 2, 8


class Sentences(Dataset):
    def __len__(self):
        return STEPS_PER_EPOCH * BATCH * int(os.environ["WORLD_SIZE"])

    def __getitem__(self, index):
        tokens = torch.randint(0, 64, (TOKENS,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": tokens, "labels": tokens}


def gpt():
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.manual_seed(1)
    return GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=TOKENS, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0))


def net():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Embedding(64, 16), torch.nn.Linear(16, 64))


def loss_of(model, batch):
    return torch.nn.functional.cross_entropy(model(batch["input_ids"]).flatten(0, 1), batch["labels"].flatten())


def step_done(_done=[0]):
    _done[0] += 1
    if os.environ["RANK"] == "0" and os.path.exists("hold") and int(open("hold").read()) == _done[0]:
        print("holds", flush=True)
        while os.path.exists("hold"):
            time.sleep(0.01)


def copied(callbacks, but):
    """As scripts do that start processes to train in, or train once more. But for one that holds the whole script."""
    others = [each for each in callbacks if not isinstance(each, but)]
    copy.deepcopy(others)
    pickle.loads(pickle.dumps(others))


def fail(train):
    """It ends by an exception whose traceback has no frame but the script's and its trainer's."""
    try:
        train()
    except KeyError as error:
        assert not [frame for frame in traceback.extract_tb(error.__traceback__) if "ddprun/_" in frame.filename], error
        return
    sys.exit("it has not failed")


def with_transformers():
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Says(TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            step_done()
            copied(trainer.callback_handler.callbacks, Says)
    options = TrainingArguments("out", per_device_train_batch_size=BATCH, num_train_epochs=EPOCHS, disable_tqdm=True, report_to="none",
                                save_strategy="no" if "unsaved" in WORDS else "steps", save_steps=1000, logging_steps=5, use_cpu=True,
                                gradient_accumulation_steps=2 if "accumulated" in WORDS else 1, save_total_limit=1, seed=3)
    model = gpt()
    if "unsaved" in WORDS:
        fail(Trainer(model, options, train_dataset=[{}], data_collator=lambda examples: examples[0]["input_ids"]).train)
    trainer = Trainer(model, options, train_dataset=Sentences(), callbacks=[Says()])
    trainer.train(resume_from_checkpoint=bool(glob.glob("out/checkpoint-*")))
    return model


class Resumable(DataLoader):
    """Lightning asks a loader where it is, and brings it back there."""
    first = given = 0

    def __iter__(self):
        self.given, first, self.first = self.first, self.first, 0
        for number, batch in enumerate(super().__iter__()):
            if number >= first:
                self.given = number + 1
                yield batch

    def state_dict(self):
        return {"given": self.given}

    def load_state_dict(self, state):
        self.first = state["given"] % len(self)


def with_lightning():
    import pytorch_lightning as lightning
    from pytorch_lightning.callbacks import ModelCheckpoint

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = net()

        def training_step(self, batch, index):
            return loss_of(self.model, batch)

        def on_train_batch_end(self, outputs, batch, index):
            step_done()
            copied(self.trainer.callbacks, ModelCheckpoint)

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), 1e-3)
    sampler = torch.utils.data.DistributedSampler(Sentences(), int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"]), shuffle=False)
    saves = [] if "unsaved" in WORDS else [ModelCheckpoint("out", every_n_epochs=1000)]
    module = Module()
    trainer = lightning.Trainer(accelerator="cpu", devices=int(os.environ["LOCAL_WORLD_SIZE"]), strategy="ddp", max_epochs=EPOCHS,
                                logger=False, callbacks=saves, enable_checkpointing=bool(saves), enable_progress_bar=False,
                                enable_model_summary=False, use_distributed_sampler=False)
    trainer.fit(module, Resumable(Sentences(), BATCH, sampler=sampler), ckpt_path="last" if saves else None)
    return module.model


def with_accelerate():
    from accelerate import Accelerator
    from accelerate.utils import ProjectConfiguration

    class Place:
        epoch = batch = 0

        def state_dict(self):
            return {"epoch": self.epoch, "batch": self.batch}

        def load_state_dict(self, state):
            self.epoch, self.batch = state["epoch"], state["batch"]
    accelerator = Accelerator(cpu=True, project_config=ProjectConfiguration("out", automatic_checkpoint_naming="unsaved" not in WORDS))
    model, place = net(), Place()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, EPOCHS * STEPS_PER_EPOCH)
    loader = DataLoader(Sentences(), BATCH)
    wrapped, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    accelerator.register_for_checkpointing(place)
    if glob.glob("out/checkpoints/*"):
        accelerator.load_state()
    while place.epoch < EPOCHS:
        for batch in accelerator.skip_first_batches(loader, place.batch):
            accelerator.backward(loss_of(wrapped, batch))
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            place.batch += 1
            step_done()
        place.epoch, place.batch = place.epoch + 1, 0
    if "longer" in WORDS:
        print("trained", flush=True)
        time.sleep(1000)
    accelerator.end_training()
    return model


if "handler" in WORDS:
    signal.signal(signal.SIGTERM, lambda *_: (sys.stdout.write("my handler\n"), sys.stdout.flush(), os._exit(9)))
torch.set_num_threads(1)
trained = {"transformers": with_transformers, "lightning": with_lightning, "accelerate": with_accelerate}[KIND]()
weights = b"".join(parameter.detach().numpy().tobytes() for parameter in trained.parameters())
if os.environ["RANK"] == "0":
    print(f"weights {hashlib.sha256(weights).hexdigest()}", flush=True)
