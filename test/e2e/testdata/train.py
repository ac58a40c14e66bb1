"""Trains a small model with PyTorch, as any program would: it knows nothing of trainspan."""

import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
inputs = torch.randn(640, 16)
data = DataLoader(TensorDataset(inputs, inputs.sum(dim=1, keepdim=True)), batch_size=32, shuffle=True)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(3):
    for x, y in data:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
torch.save(model.state_dict(), "model.pt")
