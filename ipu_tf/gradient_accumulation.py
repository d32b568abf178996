"""How the gradients of several micro-batches are reduced to one weight update's gradient."""

from __future__ import annotations

import enum


class GradientAccumulationReductionMethod(enum.Enum):
    """How the gradients g_1 to g_n of n micro-batches are reduced.

    SUM adds them. MEAN adds g_k / n. RUNNING_MEAN keeps the mean of the gradients so far:
    a_k = a_(k-1) * (k - 1) / k + g_k / k, which never exceeds the gradients themselves.
    """

    SUM = "sum"
    MEAN = "mean"
    RUNNING_MEAN = "running_mean"

    @classmethod
    def parse(cls, reduction_method: object) -> GradientAccumulationReductionMethod:
        """Returns the method of this name, in any case, or the method itself.

        Args:
            reduction_method: A method or its name, "sum" for example.

        Raises:
            ValueError: There is no such method.
        """
        if isinstance(reduction_method, cls):
            return reduction_method
        if isinstance(reduction_method, str) and reduction_method.upper() in cls.__members__:
            return cls[reduction_method.upper()]
        names = ", ".join(cls.__members__)
        raise ValueError(
            f"Cannot parse {reduction_method} as one of GradientAccumulationReductionMethod. "
            f"Use one of {names}, as a member or by name. Received: {reduction_method!r}."
        )
