import sys

import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.0002)
rows = []
for n, line in enumerate(sys.stdin, 1):
    rows.append([float(v) for v in line.split()])
    if len(rows) == 8:
        t = torch.tensor(rows)
        rows = []
        loss = ((model(t[:, :4]) - t[:, 4:]) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if n % 4000 == 0:
            print(f"samples {n} loss {loss.item():.5f}", flush=True)
torch.save(model.state_dict(), "model.pt")
