"""Trains a small network on scikit-learn's handwritten digits to at least 95 %. It knows nothing of mlcd."""

from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 40
STATE = Path("state/last.pt")

torch.manual_seed(0)
digits = load_digits()
images = torch.tensor(digits.data, dtype=torch.float32) / 16
labels = torch.tensor(digits.target)
order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))
train_set = TensorDataset(images[order[:1437]], labels[order[:1437]])
test_set = TensorDataset(images[order[1437:]], labels[order[1437:]])

model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
first_epoch = 0
if STATE.exists():
    state = torch.load(STATE)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    first_epoch = state["epoch"] + 1

for epoch in range(first_epoch, EPOCHS):
    model.train()
    for x, y in DataLoader(train_set, batch_size=32, shuffle=True):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    model.eval()
    with torch.no_grad():
        right = sum((model(x).argmax(1) == y).sum().item() for x, y in DataLoader(test_set, batch_size=120))
    print(f"epoch {epoch} loss={loss.item():.4f} test_accuracy={right / len(test_set):.4f}", flush=True)

    if epoch % 5 == 4:
        STATE.parent.mkdir(exist_ok=True)
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        part = STATE.with_suffix(".part")
        torch.save(state, part)
        part.replace(STATE)

torch.save(model.state_dict(), "model.pt")
