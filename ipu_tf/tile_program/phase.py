"""The passes of a training step."""

from __future__ import annotations

from typing import Literal, TypeAlias

Phase: TypeAlias = Literal["forward", "backward", "update"]
"""Which part of a training step a step of a program belongs to; inference is all forward."""
