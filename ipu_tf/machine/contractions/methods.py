"""The methods by which a tile can compute its block of a contraction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Literal

from ipu_tf.machine.contractions.amp import amp_1x1_cycles, amp_nx1_cycles, pass_columns
from ipu_tf.machine.contractions.mac import (
    horizontal_mac_cycles,
    outer_product_cycles,
    vertical_mac_cycles,
)
from ipu_tf.machine.contractions.slic import slic_cycles
from ipu_tf.machine.contractions.work import ContractionWork
from ipu_tf.machine.cost import Count
from ipu_tf.machine.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One way to multiply and add.

    Attributes:
        cycles: From a tile's work to the cycles of its vertices.
        dtypes: Types of inputs that it takes.
        padded: Whether channels are padded to whole AMP passes in memory.
        expanded: The filter positions for which the image is expanded, so that they become input
            channels: all, those of a row, or none.
        filter_rows: Rows of the filter in one pass, in place of as many times the input channels.
        swapped: Whether the left input's rows take the place of columns: `a b` as `(b' a')'`.
        macs_per_cycle: Upper limit of its rate, by the type of the inputs; empty for the AMP
            units, whose rate is the target's.
        code_bytes: Bytes of the codelet. Modelled: eight bytes for each bundle of its loops.
    """

    cycles: Callable[[ContractionWork, Target], Count]
    dtypes: tuple[str, ...]
    padded: bool = False
    expanded: Literal["all", "row", "none"] = "none"
    filter_rows: int = 1
    swapped: bool = False
    macs_per_cycle: Mapping[str, int] = field(default_factory=dict)
    code_bytes: int

    def peak_macs_per_cycle(self, dtype: str, partials: str, target: Target) -> int:
        """Returns the most multiply-accumulates per cycle and tile."""
        if dtype in self.macs_per_cycle:
            return self.macs_per_cycle[dtype]
        columns = pass_columns(dtype, partials, target)
        return target.macs_per_cycle(dtype) * columns // target.amp_columns


_AMP_DTYPES = ("float32", "float16", "float8")

METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "amp_1x1": Method(cycles=amp_1x1_cycles, dtypes=_AMP_DTYPES, padded=True, code_bytes=900),
        "amp_1x1_swapped": Method(
            cycles=amp_1x1_cycles, dtypes=_AMP_DTYPES, padded=True, swapped=True, code_bytes=900
        ),
        "amp_nx1": Method(cycles=amp_nx1_cycles, dtypes=_AMP_DTYPES, padded=True, code_bytes=1500),
        "amp_nx1_2_rows": Method(
            cycles=partial(amp_nx1_cycles, filter_rows=2),
            dtypes=_AMP_DTYPES,
            padded=True,
            filter_rows=2,
            code_bytes=1500,
        ),
        "amp_nx1_4_rows": Method(
            cycles=partial(amp_nx1_cycles, filter_rows=4),
            dtypes=_AMP_DTYPES,
            padded=True,
            filter_rows=4,
            code_bytes=1500,
        ),
        "amp_expanded": Method(
            cycles=amp_1x1_cycles,
            dtypes=_AMP_DTYPES,
            padded=True,
            expanded="all",
            code_bytes=900,
        ),
        "amp_nx1_expanded": Method(
            cycles=amp_nx1_cycles,
            dtypes=_AMP_DTYPES,
            padded=True,
            expanded="row",
            code_bytes=1500,
        ),
        "slic": Method(
            cycles=slic_cycles, dtypes=("float16",), macs_per_cycle={"float16": 32}, code_bytes=1800
        ),
        "horizontal_mac": Method(
            cycles=horizontal_mac_cycles,
            dtypes=("float32", "float16"),
            macs_per_cycle={"float32": 2, "float16": 4},
            code_bytes=700,
        ),
        "horizontal_mac_swapped": Method(
            cycles=horizontal_mac_cycles,
            dtypes=("float32", "float16"),
            swapped=True,
            macs_per_cycle={"float32": 2, "float16": 4},
            code_bytes=700,
        ),
        "vertical_mac": Method(
            cycles=vertical_mac_cycles,
            dtypes=("float16",),
            macs_per_cycle={"float16": 3},
            code_bytes=900,
        ),
        "outer_product": Method(
            cycles=outer_product_cycles,
            dtypes=("float32", "float16"),
            macs_per_cycle={"float32": 1, "float16": 2},
            code_bytes=300,
        ),
        "outer_product_swapped": Method(
            cycles=outer_product_cycles,
            dtypes=("float32", "float16"),
            swapped=True,
            macs_per_cycle={"float32": 1, "float16": 2},
            code_bytes=300,
        ),
    }
)
