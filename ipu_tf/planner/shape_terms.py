"""Types and checks that all shapes share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from ipu_tf.machine.cost import Count
from ipu_tf.machine.dtypes import INPUT_BYTES

Block: TypeAlias = Mapping[str, Count]
"""The size of every extent's part, or the number of its parts, by the extent's name."""

Family: TypeAlias = Literal["matmul", "conv"]
"""Kinds of planned ops."""

DTYPE_BYTES = INPUT_BYTES
PARTIAL_DTYPES = ("float32", "float16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operands:
    """Elements of a block's two inputs and of its output."""

    left: Count
    right: Count
    output: Count


class PlannedShape(Protocol):
    """What planner, cost model and lowering know of a shape, whatever its op."""

    @property
    def op(self) -> str:
        """Name for messages."""

    @property
    def family(self) -> Family:
        """The kind of plans it takes, and of options that apply."""

    @property
    def pass_(self) -> str:
        """Part of the training step: "forward", "input_gradient" or "filter_gradient"."""

    @property
    def dtype(self) -> str:
        """Type of the inputs."""

    @property
    def products(self) -> int:
        """The multiplications."""

    @property
    def extents(self) -> Mapping[str, int]:
        """Extents that a plan splits, in the plan's order."""

    @property
    def reduction_splits(self) -> tuple[str, ...]:
        """Extents that are summed over, in the order in which their partials are added."""

    @property
    def grained_split(self) -> str:
        """The extent that is cut in whole AMP passes."""

    @property
    def column_split(self) -> str:
        """The extent that the columns of the AMP unit compute side by side."""

    @property
    def part_order(self) -> tuple[str, ...]:
        """The extents in the order in which their parts number tiles, the slowest first."""

    @property
    def left_shared_by(self) -> tuple[str, ...]:
        """Splits whose parts read the same block of the left input."""

    @property
    def right_shared_by(self) -> tuple[str, ...]:
        """Splits whose parts read the same block of the right input."""

    @property
    def left_read_share(self) -> float:
        """The share of the left input that is read."""

    def halo(self, block: Block) -> tuple[int, float]:
        """Returns how many blocks of the left input one block reads, and their elements."""

    def pieces(self, unit: Callable[[str], Count]) -> tuple[Count | None, Count | None]:
        """Returns the elements of inputs that lie side by side on other tiles and on a plan's.

        None for an input that needs not come from other tiles.

        Args:
            unit: Returns the elements of which a plan's borders along an extent are multiples.
        """

    def operands(self, block: Block) -> Operands:
        """Returns the elements that a tile holds for a block."""


def check_dtype(owner: str, dtype: str) -> None:
    """Raises a ValueError that names `owner` if `dtype` is not one that the tiles multiply."""
    if dtype not in DTYPE_BYTES:
        names = " or ".join(repr(name) for name in DTYPE_BYTES)
        raise ValueError(f"{owner}.dtype must be {names}. Received: {dtype!r}.")


def check_at_least(shape: object, minimum: int, names: tuple[str, ...]) -> None:
    """Raises a ValueError if a named field of a shape has an entry below `minimum`."""
    for name in names:
        value = getattr(shape, name)
        entries = value if isinstance(value, tuple) else (value,)
        if any(isinstance(e, bool) or not isinstance(e, int) or e < minimum for e in entries):
            kind = "positive" if minimum == 1 else "non-negative"
            raise ValueError(
                f"{type(shape).__name__}.{name} must be {kind} and an int. Received: {value!r}. "
                "The simulated IPU has no zero-sized dimensions."
            )
