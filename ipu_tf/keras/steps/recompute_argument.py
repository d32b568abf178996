"""The argument `recompute` of estimates."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from typing import Literal, TypeAlias

from ipu_tf.compiler.pipeline.deployment import Deployment
from ipu_tf.runtime.programs import device_programs

Recompute: TypeAlias = bool | Literal["auto"] | Sequence[str] | None
"""Whether a step recomputes: always, never, as memory needs, between layers, or as configured."""


def check_recompute(recompute: object) -> None:
    """Raises a ValueError unless a value is a `Recompute`."""
    if recompute is None or isinstance(recompute, bool) or recompute == "auto":
        return
    are_names = (
        isinstance(recompute, Sequence)
        and not isinstance(recompute, str)
        and all(isinstance(layer, str) and layer for layer in recompute)
    )
    if not are_names:
        raise ValueError(
            '`recompute` must be True, False, "auto", None, or the names of layers after which '
            f"activations are kept. Received: {recompute!r}."
        )


def keeping(recompute: Recompute) -> contextlib.AbstractContextManager[None]:
    """Makes programs compiled inside recompute as an argument says."""
    if recompute is None:
        return contextlib.nullcontext()
    return device_programs.recomputing(*_choice(recompute))


def with_recomputation(deployment: Deployment | None, recompute: Recompute) -> Deployment | None:
    """Returns a deployment that recomputes as an argument says."""
    if deployment is None or recompute is None:
        return deployment
    recomputes, _ = _choice(recompute)  # Its layers are among the options of the compiler.
    return dataclasses.replace(deployment, recompute=recomputes, checkpoints=())


def _choice(recompute: bool | Literal["auto"] | Sequence[str]) -> tuple[bool, tuple[str, ...]]:
    """Returns whether a step is first compiled with recomputation, and the layers it keeps."""
    if isinstance(recompute, bool):
        return recompute, ()
    return (False, ()) if recompute == "auto" else (True, tuple(recompute))
