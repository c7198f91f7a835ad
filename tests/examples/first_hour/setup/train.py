import torch
from epoch_words import in_words
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
X, y = load_digits(return_X_y=True)
data = TensorDataset(torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y))
loader = DataLoader(data, batch_size=32, shuffle=True)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(30):
    total = 0.0
    for x, target in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(x)
    print(f"epoch {in_words(epoch + 1)} loss {total / len(data):.4f}", flush=True)
torch.save(model.state_dict(), "model.pt")
