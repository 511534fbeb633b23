"""The convolutional network that `tcn` and `semi-blind` share."""

from __future__ import annotations
