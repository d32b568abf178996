"""What is published of a measurement and contradicts what its records infer."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ipu_tf.calibration.records import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """A measurement as its publication describes it.

    Attributes:
        source: What it is called.
        named: Texts of which the id or the source of its records contains one.
        kind: The kind of its records.
        chip: The chip that was measured.
        params: Parameters that replace those of the records, by name.
        why: Where it is published, or from what it follows.
    """

    source: str
    named: tuple[str, ...]
    kind: str
    chip: str
    params: Mapping[str, Any] = field(default_factory=dict)
    why: str

    def concerns(self, record: Record) -> bool:
        """Returns whether a record is of this measurement."""
        said = f"{record.id} {record.source}".lower()
        return record.kind == self.kind and any(name in said for name in self.named)


CORRECTIONS = (
    Correction(
        source="PopSparse, dense matmuls (arXiv 2303.16999)",
        named=("popsparse", "sparsity-benchmarks"),
        kind="dense_matmul",
        chip="bow",
        params={
            "cycles_counted": "compute and exchange, no sync",
            "partials": "half of half inputs",
        },
        why="the authors ran on one Bow IPU and turned cycles into rates at a fixed 1.85 GHz "
        "(their article on PopSparse; their notebook SpMM.ipynb, which expects 30% less of a "
        "GC200); their matmul_bench.py prints the rate of compute and exchange together, without "
        "sync; no product of float16 with float32 partials exceeds 174 TFLOP/s on a Bow, and 239 "
        "were measured",
    ),
)
"""Measurements of which the records infer otherwise. The measured figures stay as recorded."""


def corrected(record: Record) -> Record:
    """Returns the record with what is published of its measurement."""
    correction = next((one for one in CORRECTIONS if one.concerns(record)), None)
    if correction is None:
        return record
    params = {**record.params, **correction.params}
    return dataclasses.replace(record, chip=correction.chip, params=params)
