"""Lightning's Trainer with DDP, validation, a checkpoint callback and gradient accumulation."""
import logging
import os
import sys
import tempfile
import warnings

import pytorch_lightning as lightning
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader, TensorDataset

from weights import digest

logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
warnings.filterwarnings("ignore")


class Regression(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))

    def training_step(self, batch, _):
        inputs, targets = batch
        self.loss = torch.nn.functional.mse_loss(self.net(inputs), targets)
        return self.loss

    def validation_step(self, batch, _):
        self.log("valid", torch.nn.functional.l1_loss(self.net(batch[0]), batch[1]), sync_dist=True)

    def on_train_epoch_end(self):
        if self.trainer.is_global_zero:
            print(f"epoch {self.current_epoch}: loss {self.loss.item():.6f}, valid {self.trainer.callback_metrics['valid'].item():.6f}")

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)


def main(epochs):
    lightning.seed_everything(22, verbose=False)
    x = torch.randn(512, 4)
    data = TensorDataset(x, x.sum(1, keepdim=True))
    with tempfile.TemporaryDirectory() as folder:
        trainer = lightning.Trainer(accelerator="cpu", devices=int(os.environ["LOCAL_WORLD_SIZE"]), strategy="ddp", max_epochs=epochs,
                                    accumulate_grad_batches=2, logger=False, enable_progress_bar=False, enable_model_summary=False,
                                    callbacks=[ModelCheckpoint(folder)], default_root_dir=folder)
        module = Regression()
        trainer.fit(module, DataLoader(data, batch_size=4, shuffle=True), DataLoader(data, batch_size=32))
        print(f"rank {trainer.global_rank}: step {trainer.global_step}, weights {digest(module)}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
