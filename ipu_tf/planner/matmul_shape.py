"""The shape of a matmul: its extents, and the needs of a block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ipu_tf.machine.contractions import ContractionWork
from ipu_tf.machine.cost import Count
from ipu_tf.planner.shape_terms import Block, Family, Operands, check_at_least, check_dtype


@dataclass(frozen=True, slots=True, kw_only=True)
class MatMulShape:
    """`[batch, m, k] x [batch, k, n]`.

    Attributes:
        batch: Number of products; 1 for a plain matmul.
        m: Rows of the result.
        k: Elements summed over.
        n: Columns of the result.
        dtype: Type of the inputs, "float32" or "float16".
    """

    batch: int = 1
    m: int
    k: int
    n: int
    dtype: str = "float32"

    def __post_init__(self) -> None:
        check_dtype("MatMulShape", self.dtype)
        check_at_least(self, 1, ("batch", "m", "k", "n"))

    @property
    def op(self) -> str:
        """Name for messages."""
        return "matmul"

    @property
    def family(self) -> Family:
        """The kind of plans it takes, and of options that apply."""
        return "matmul"

    @property
    def pass_(self) -> str:
        """Always "forward": the gradients of a matmul are matmuls."""
        return "forward"

    @property
    def products(self) -> int:
        """The multiplications."""
        return self.batch * self.m * self.k * self.n

    @property
    def extents(self) -> dict[str, int]:
        """Extents that a plan splits, in the plan's order."""
        return {"batch": self.batch, "rows": self.m, "columns": self.n, "reduction": self.k}

    @property
    def reduction_splits(self) -> tuple[str, ...]:
        """Extents that are summed over, in the order in which their partials are added."""
        return ("reduction",)

    @property
    def grained_split(self) -> str:
        """The extent that is cut in whole AMP passes."""
        return "reduction"

    @property
    def undilated(self) -> None:
        """None: a matmul skips no element."""
        return None

    @property
    def rearranged(self) -> tuple[bool, bool]:
        """Whether the left and the right input change their layout before the multiplication.

        Neither does: the ops that produce the operands of a matmul lay them out for it.
        """
        return (False, False)

    @property
    def left_waits(self) -> bool:
        """Whether layouts assume that the left input stays in place while the right one streams.

        True: poplibs lays out the operands and the result of a matmul this way.
        """
        return True

    @property
    def column_split(self) -> str:
        """The extent that the columns of the AMP unit compute side by side."""
        return "columns"

    @property
    def channels(self) -> int:
        """Elements that lie side by side in the left input."""
        return self.k

    @property
    def part_order(self) -> tuple[str, ...]:
        """The extents in the order in which their parts number tiles, the slowest first.

        Parts of the result come before parts that are summed over.
        """
        return ("batch", "rows", "columns", "reduction")

    @property
    def left_shared_by(self) -> tuple[str, ...]:
        """Splits whose parts read the same block of the left input."""
        return ("columns",)

    @property
    def right_shared_by(self) -> tuple[str, ...]:
        """Splits whose parts read the same block of the right input."""
        return ("rows",)

    @property
    def left_read_share(self) -> float:
        """1: a matmul reads all of its inputs."""
        return 1.0

    def halo(self, block: Block) -> tuple[int, float]:
        """Returns that a block reads one block of the left input, and no more than its elements."""
        del block
        return 1, 1.0

    def pieces(self, unit: Callable[[str], Count]) -> tuple[Count | None, Count | None]:
        """Returns the elements of inputs that lie side by side on other tiles and on a plan's.

        Nothing is known of the program: the right input may be a gradient.
        """
        return unit("reduction"), unit("columns")

    def operands(self, block: Block) -> Operands:
        """Returns the elements that a tile holds for a block."""
        batch, m, n, k = (block[name] for name in self.extents)
        return Operands(left=batch * m * k, right=batch * k * n, output=batch * m * n)

    def work(self, block: Block, partials: str) -> ContractionWork:
        """Returns the work of a tile for a block."""
        return ContractionWork(
            groups=block["batch"],
            positions=block["rows"],
            row_positions=block["rows"],
            in_channels=block["reduction"],
            out_channels=block["columns"],
            dtype=self.dtype,
            partials=partials,
        )
