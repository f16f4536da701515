"""Lightning's Trainer. No line is about ddprun; with --watch it also saves before a preemption.

  ddprun --nproc_per_node=2 --watch train.py [EPOCHS]
"""
import os
import sys

import pytorch_lightning as pl  # or: import lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader, TensorDataset


class Sum(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))

    def training_step(self, batch, index):
        x, y = batch
        loss = torch.nn.functional.mse_loss(self.net(x), y)
        self.log("loss", loss)
        return loss

    def on_train_epoch_end(self):
        if self.trainer.is_global_zero:
            loss = self.trainer.callback_metrics["loss"].item()
            print(f"epoch {self.current_epoch + 1} of {self.trainer.max_epochs}: step {self.global_step}, loss {loss:.4f}")

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(epochs):
    pl.seed_everything(0, verbose=False)
    x = torch.randn(1024, 20)
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=32, shuffle=True)
    # A folder of the same name in every run: the default one has the logger's version in it.
    saves = ModelCheckpoint("checkpoints", save_last=True)
    trainer = pl.Trainer(max_epochs=epochs, accelerator="auto", devices=int(os.environ["LOCAL_WORLD_SIZE"]),
                         num_nodes=int(os.environ["GROUP_WORLD_SIZE"]), strategy="ddp", callbacks=[saves], logger=False,
                         enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Sum(), loader, ckpt_path="last")  # begins where there is none


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
