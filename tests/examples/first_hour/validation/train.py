import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(0)
X, y = load_digits(return_X_y=True)
data = TensorDataset(torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y))
train, val = random_split(data, [1437, 360])
loader, check = DataLoader(train, batch_size=32, shuffle=True), DataLoader(val, batch_size=64)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(200):
    model.train()
    for x, target in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        good = sum((model(x).argmax(1) == t).sum().item() for x, t in check)
    print(f"epoch {epoch + 1} loss {loss.item():.4f} val_accuracy {good / len(val):.4f}", flush=True)
    torch.save(model.state_dict(), "model.pt")
