import numpy as np

rng = np.random.default_rng(0)
X = rng.standard_normal((20000, 50))
w = rng.standard_normal(50)
y = X @ w
v = np.zeros(50)
for epoch in range(400):
    for i in range(0, len(X), 10):
        b = slice(i, i + 10)
        v -= 0.002 * X[b].T @ (X[b] @ v - y[b]) / 10
    print(f"epoch {epoch + 1}/400 loss={np.mean((X @ v - y) ** 2):.6f}", flush=True)
np.save("model.npy", v)
