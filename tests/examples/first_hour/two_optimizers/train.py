import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(2048, 16))
loader = DataLoader(data, batch_size=64, shuffle=True)
G = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 16))
D = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
og, od = torch.optim.Adam(G.parameters(), 1e-4), torch.optim.Adam(D.parameters(), 1e-4)
bce = torch.nn.BCEWithLogitsLoss()
for epoch in range(40):
    for (real,) in loader:
        n = len(real)
        fake = G(torch.randn(n, 8))
        d = bce(D(real), torch.ones(n, 1)) + bce(D(fake.detach()), torch.zeros(n, 1))
        od.zero_grad()
        d.backward()
        od.step()
        g = bce(D(fake), torch.ones(n, 1))
        og.zero_grad()
        g.backward()
        og.step()
    print(f"epoch {epoch + 1}: d_loss={d.item():.4f} g_loss={g.item():.4f}", flush=True)
torch.save(G.state_dict(), "model.pt")
