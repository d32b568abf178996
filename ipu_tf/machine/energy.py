"""Energy of arithmetic, as Graphcore measured it on the Mk2 die.

Models the dynamic energy of convolutions on synthetic data, in which more bits change than in real
data (that takes a half to two thirds). Does not model exchange, links, host, streaming memory, nor
the power of an idle chip.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ipu_tf.machine.target import Target

_PICO = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class FlopEnergies:
    """Joules of a floating point operation, by the types of inputs and partials.

    Attributes:
        f16: float16 inputs, partials that go to memory as float16.
        f16_f32_partials: float16 inputs, partials that go to memory as float32.
        f32: float32 inputs.
        f8: float8 inputs; None where tiles have no such arithmetic.
    """

    f16: float
    f16_f32_partials: float
    f32: float
    f8: float | None = None

    def joules(self, dtype: str, partials: str = "float32") -> float:
        """Returns the joules of an operation; types without an entry count as float32.

        Args:
            dtype: Type of the inputs, such as "float16".
            partials: Type of the partial results.
        """
        if dtype.startswith("float8") and self.f8 is not None:
            return self.f8
        if dtype == "float16":
            return self.f16 if partials == "float16" else self.f16_f32_partials
        return self.f32


# Stated by Graphcore for the Mk2 die: dynamic power of convolutions on synthetic data.
_MK2 = FlopEnergies(f16=1.0 * _PICO, f16_f32_partials=1.3 * _PICO, f32=2.5 * _PICO)
# Stated by Graphcore: float8 takes about half of the energy of float16.
_MK2_F8 = FlopEnergies(
    f16=_MK2.f16, f16_f32_partials=_MK2.f16_f32_partials, f32=_MK2.f32, f8=0.5 * _PICO
)

ENERGIES: Mapping[str, FlopEnergies] = {"gc200": _MK2, "bow": _MK2, "c600": _MK2_F8}
"""By the name of the chip. The GC2 is of another process, for which nothing is published."""


def flop_energies(target: Target) -> FlopEnergies | None:
    """Returns the energies of a chip; None if none are known."""
    return ENERGIES.get(target.chip)
