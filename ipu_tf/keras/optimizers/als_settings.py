"""The settings of automatic loss scaling."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ALSSettings:
    """The settings of the loss scaling factor.

    Attributes:
        initial_loss_scaling_factor: The factor of the first steps, a power of two.
        update_frequency: Number of steps between those that update the factor; 1 for every step.
        increase_factor: The factor is multiplied or divided by this; a power of two.
        max_loss_scaling_factor: The factor stays below this power of two.
        accumulate_statistics_over_update_period: Whether the gradients of all steps count, or only
            those of the last step before an update.
        ratio_threshold: The share of large gradients from which on the factor shrinks.
        captured_grads_only: Whether only captured gradients count, not those of the variables.
        lpf_alpha: Share of the old histogram in the new one at every step, from 0 (counts add up)
            to 1 (nothing is counted).
        histogram_bin_edge: The magnitude from which on a gradient counts as large.
    """

    initial_loss_scaling_factor: float = 1
    update_frequency: int = 8
    increase_factor: float = 2
    max_loss_scaling_factor: float = 32768
    accumulate_statistics_over_update_period: bool = True
    ratio_threshold: float = 10e-6
    captured_grads_only: bool = False
    lpf_alpha: float = 0.0
    histogram_bin_edge: float = 2.0**13

    @property
    def steps_of_update(self) -> int:
        """Steps from one update of the factor to the next, the last of which updates it."""
        return 1 if self.update_frequency == 1 else self.update_frequency + 1

    def __post_init__(self) -> None:
        """Checks the settings.

        Raises:
            ValueError: A setting is out of its range.
        """
        for name in ("initial_loss_scaling_factor", "increase_factor", "max_loss_scaling_factor"):
            self._check(name, _is_power_of_two(getattr(self, name)), "must be a power of two")
        frequency = self.update_frequency
        self._check(
            "update_frequency",
            isinstance(frequency, int) and frequency > 0,
            "must be nonzero and positive, a whole number of steps",
        )
        self._check(
            "ratio_threshold",
            0 < self.ratio_threshold < 1,
            "must be greater than zero and less than one",
        )
        self._check("lpf_alpha", 0 <= self.lpf_alpha <= 1, "must be from 0 to 1")
        self._check("histogram_bin_edge", self.histogram_bin_edge > 0, "must be positive")
        self._check_maximum()

    def _check(self, name: str, valid: bool, rule: str) -> None:
        if not valid:
            raise ValueError(f"{name} {rule}. Received: {name}={getattr(self, name)!r}.")

    def _check_maximum(self) -> None:
        initial, maximum = self.initial_loss_scaling_factor, self.max_loss_scaling_factor
        settings = (
            f"Received: initial_loss_scaling_factor={initial}, "
            f"increase_factor={self.increase_factor}, max_loss_scaling_factor={maximum}."
        )
        if initial >= maximum:
            raise ValueError(
                f"initial_loss_scaling_factor must be less than max_loss_scaling_factor. {settings}"
            )
        if initial * self.increase_factor >= maximum:
            raise ValueError(
                "initial_loss_scaling_factor x increase_factor must be less than "
                f"max_loss_scaling_factor, or the factor could never grow. {settings}"
            )


def _is_power_of_two(value: float) -> bool:
    """Returns whether a value is 1, 2, 4 and so on."""
    return math.isfinite(value) and value >= 1 and math.frexp(value)[0] == 0.5
