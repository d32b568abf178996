"""The tensors in memory at a step."""

import dataclasses

from ipu_tf.tile_program.layouts.footprint import Footprint
from ipu_tf.tile_program.liveness import live_at, live_on_tile
from ipu_tf.tile_program.program import Tensor

WEIGHT = Tensor(
    name="dense/kernel",
    layer="dense",
    category="weights",
    footprint=Footprint(first_tile=0, tiles=4, tile_bytes=100),
    bytes=400,
    first_step=0,
    last_step=9,
    always_live=True,
)
EARLY = dataclasses.replace(
    WEIGHT,
    name="relu.1",
    layer="relu",
    category="activations",
    footprint=Footprint(first_tile=3, tiles=2, tile_bytes=300),
    first_step=1,
    last_step=4,
    always_live=False,
)
LATE = dataclasses.replace(EARLY, name="dot.2", layer="dense", first_step=4, last_step=6)
TENSORS = (WEIGHT, EARLY, LATE)


def names(tensors):
    return [tensor.name for tensor in tensors]


def test_a_tensor_lives_from_its_first_to_its_last_step():
    assert names(live_at(TENSORS, 0)) == ["dense/kernel"]
    assert names(live_at(TENSORS, 1)) == ["dense/kernel", "relu.1"]
    assert names(live_at(TENSORS, 4)) == ["dense/kernel", "relu.1", "dot.2"]
    assert names(live_at(TENSORS, 7)) == ["dense/kernel"]


def test_a_tile_sees_what_it_holds_largest_first():
    on_tile = live_on_tile(TENSORS, step=1, tile=3, tiles=8)
    assert [(live.tensor.name, live.tile_bytes) for live in on_tile] == [
        ("relu.1", 300),
        ("dense/kernel", 100),
    ]
    assert live_on_tile(TENSORS, step=1, tile=7, tiles=8) == ()
