"""The layers of the recurrent attacker. Importing this module needs PyTorch."""

from __future__ import annotations

import torch
from torch import nn

KERNEL = 4


class Net(nn.Module):
    """Conv1D → BiLSTM (sequence) → BiLSTM (last) → Dense tanh → Dense 1."""

    def __init__(self, filters: int, hidden: tuple[int, int], dense: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(1, filters, KERNEL)
        self.sequence = nn.LSTM(filters, hidden[0], batch_first=True, bidirectional=True)
        self.summary = nn.LSTM(2 * hidden[0], hidden[1], batch_first=True, bidirectional=True)
        self.dense = nn.Linear(2 * hidden[1], dense)
        self.output = nn.Linear(dense, 1)

    def forward(self, windows: torch.Tensor) -> torch.Tensor:
        """Scaled power (B,) of windows (B, W)."""
        left = (KERNEL - 1) // 2
        padded = nn.functional.pad(windows[:, None, :], (left, KERNEL - 1 - left))
        series = self.convolution(padded).transpose(1, 2)
        series, _ = self.sequence(series)
        _, (last, _) = self.summary(series)
        summary = torch.cat([last[0], last[1]], dim=1)
        power: torch.Tensor = self.output(torch.tanh(self.dense(summary)))[:, 0]
        return power
