"""The source of every figure of the model, for the fidelity page."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Literal, TypeAlias

from ipu_tf.calibration.library_reduction import CALL_CYCLES
from ipu_tf.compiler.outlining import COPY_SHARES
from ipu_tf.machine.contractions import pass_columns
from ipu_tf.machine.contractions.amp import CALL_1X1_CYCLES
from ipu_tf.machine.link_timing import (
    C2_LINKS,
    C2_SERVER_LINKS,
    POD_HOST,
    POD_LINKS,
    POD_STREAMING,
)
from ipu_tf.machine.target import CHIPS
from ipu_tf.machine.tile_memory import STREAM_SHARE, SUSTAINED_SHARE
from ipu_tf.planner.plan_cost import STAGED_DEPTHS
from ipu_tf.planner.releases import FIRST

Status: TypeAlias = Literal["stated", "derived", "fitted", "modelled", "bound"]
"""stated: a source gives it. derived: arithmetic on stated figures. fitted: chosen to meet measured
points. modelled: our reading where nothing is published. bound: reality cannot be better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A constant of the model.

    Attributes:
        name: Its name.
        value: Its value, with its unit.
        status: The kind of its source.
        how: Its source.
    """

    name: str
    value: str
    status: Status
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KindNote:
    """The prediction method of a kind of measurement.

    Attributes:
        status: The weakest status of its inputs, apart from the chips' constants.
        how: Its functions and choices.
    """

    status: Status
    how: str


_BOW = CHIPS["bow"]

FIGURES: Mapping[str, object] = {
    "gc2": CHIPS["gc2"],
    "bow": _BOW,
    "bow_ghz": _BOW.clock_hz / 1e9,
    "pass_columns": pass_columns("float16", "float16", _BOW),
    "pass_columns_of_float32": pass_columns("float16", "float32", _BOW),
    "amp_call_cycles": CALL_1X1_CYCLES,
    "sustained_share": SUSTAINED_SHARE,
    "stream_share": STREAM_SHARE,
    "reduction_call_cycles": CALL_CYCLES,
    "c2_links": C2_LINKS,
    "message_ns": C2_LINKS.message_seconds * 1e9,
    "board_hop_us": C2_LINKS.board_hop_seconds * 1e6,
    "rail_hop_us": C2_LINKS.rail_hop_seconds * 1e6,
    "further_hop_us": C2_LINKS.further_hop_seconds * 1e6,
    "server_gb_per_second": C2_SERVER_LINKS.gateway_bytes_per_second / 1e9,
    "server_hop_us": C2_SERVER_LINKS.gateway_hop_seconds * 1e6,
    "gateway_gb_per_second": POD_LINKS.gateway_bytes_per_second / 1e9,
    "gateway_ipu_gb_per_second": POD_LINKS.gateway_ipu_bytes_per_second / 1e9,
    "host_gb_per_second": POD_HOST.group_bytes_per_second / 1e9,
    "streaming_gb_per_second": POD_STREAMING.ipu_bytes_per_second / 1e9,
    "first_release": FIRST,
    "staged_depths": " and ".join(map(str, STAGED_DEPTHS)),
    "first_copy_share": COPY_SHARES[0],
    "further_copy_shares": " and ".join(f"{share:.0%}" for share in COPY_SHARES[1:]),
}
"""What the names in braces in `provenance.toml` stand for."""

_SOURCES = tomllib.loads(resources.files(__package__).joinpath("provenance.toml").read_text())

CONSTANTS = tuple(
    Constant(**{field: text.format(**FIGURES) for field, text in one.items()})
    for one in _SOURCES["constants"]
)
"""Every constant of the model."""

KIND_NOTES = {kind: KindNote(**note) for kind, note in _SOURCES["kinds"].items()}
"""How each kind of measurement is predicted."""

KNOWN_WRONG = tuple(_SOURCES["known_wrong"])
"""Deviations that the comparison shows."""
