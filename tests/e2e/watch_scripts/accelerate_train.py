"""accelerate's Accelerator: prepare(), accumulate(), clipping, gather_for_metrics() and a saved state."""
import shutil
import sys
import tempfile

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, set_seed
from torch.utils.data import DataLoader, TensorDataset

from weights import digest


def main(epochs):
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    set_seed(21)
    x = torch.randn(512, 4)
    model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    data = TensorDataset(x, x.sum(1, keepdim=True))
    model, optimizer, train, valid = accelerator.prepare(model, optimizer, DataLoader(data, batch_size=4, shuffle=True),
                                                         DataLoader(data, batch_size=32))
    for epoch in range(epochs):
        model.train()
        for inputs, targets in train:
            with accelerator.accumulate(model):
                loss = torch.nn.functional.mse_loss(model(inputs), targets)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
        model.eval()
        errors = []
        for inputs, targets in valid:
            with torch.no_grad():
                errors.append(accelerator.gather_for_metrics((model(inputs) - targets).abs()))
        accelerator.print(f"epoch {epoch}: loss {loss.item():.6f}, valid {torch.cat(errors).mean().item():.6f}")
    folder = broadcast_object_list([tempfile.mkdtemp() if accelerator.is_main_process else None])[0]
    accelerator.save_state(folder)
    accelerator.wait_for_everyone()
    print(f"rank {accelerator.process_index}: weights {digest(accelerator.unwrap_model(model))}")
    if accelerator.is_main_process:
        shutil.rmtree(folder)
    accelerator.end_training()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
