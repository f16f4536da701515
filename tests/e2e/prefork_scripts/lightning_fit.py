"""Lightning's Trainer with its DDP strategy, as a launcher of the cluster starts it."""
import logging
import os
import sys
import warnings

import pytorch_lightning as lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
warnings.filterwarnings("ignore")


class Regression(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.losses = []

    def training_step(self, batch, _):
        inputs, targets = batch
        loss = torch.nn.functional.mse_loss(self.layer(inputs), targets)
        self.losses.append(loss.detach())
        return loss

    def on_train_epoch_end(self):
        mean = self.all_gather(torch.stack(self.losses).mean()).mean()
        self.losses.clear()
        if self.trainer.is_global_zero:
            strategy = type(self.trainer.strategy).__name__
            print(f"epoch {self.current_epoch}: loss {mean:.4f}, {self.trainer.world_size} processes, {strategy}")

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.05)


def main():
    lightning.seed_everything(11, verbose=False)
    x = torch.randn(64, 4)
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8, shuffle=True)
    trainer = lightning.Trainer(accelerator="cpu", devices=int(os.environ["LOCAL_WORLD_SIZE"]), strategy="ddp", max_epochs=2,
                                logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Regression(), loader)
    print(f"rank {trainer.global_rank}: weight {trainer.lightning_module.layer.weight.sum().item():.5f}")


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # threads of LibTorch may abort the interpreter's own end: pytorch/pytorch#179291
