"""Small compiled programs made by hand, for tests of what is derived from them."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from ipu_tf.machine.superstep import Superstep
from ipu_tf.machine.target import target
from ipu_tf.planner.plan import ConvPlan, ConvShape, MatMulPlan, MatMulShape
from ipu_tf.programs.nonfinite import NonFinite, ValueSummary
from ipu_tf.programs.program import NativeOp, Program, TileOp
from ipu_tf.tile_program.device_program import DeviceProgram, on_one_ipu
from ipu_tf.tile_program.layouts.footprint import Footprint
from ipu_tf.tile_program.program import Step, Tensor, TileMemory, TileProgram

TARGET = target("gc200", tiles_per_ipu=4)


def bytes_of(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def superstep(name: str, **cycles: int) -> Superstep:
    return Superstep(name=name, **cycles)


def device_program(*, samples_per_run: int = 6, **changes: Any) -> DeviceProgram:
    """The program of `tile_program` on one IPU, 6 samples a run."""
    return on_one_ipu(tile_program(**changes), system="m2000", samples_per_run=samples_per_run)


def tile_program(**changes: Any) -> TileProgram:
    """A training step of a dense layer: 1,000 cycles."""
    multiply = superstep(
        "multiply", sync_cycles=10, exchange_cycles=90, compute_cycles=200, busy_tile_cycles=600
    )
    steps = (
        Step(
            name="infeed.1",
            opcode="infeed",
            layer="",
            phase="forward",
            supersteps=(superstep("stream", host_cycles=100),),
        ),
        Step(
            name="dot.2",
            opcode="dot",
            layer="net/dense",
            phase="forward",
            supersteps=(multiply,),
            repeats=2,
            flops=960,
            plan=MatMulPlan(rows=2, columns=2),
            op_name="net/dense/MatMul",
        ),
        Step(
            name="dot.3",
            opcode="dot",
            layer="net/dense",
            phase="backward",
            supersteps=(superstep("multiply", compute_cycles=200, busy_tile_cycles=600),),
            flops=960,
        ),
        Step(
            name="subtract.4",
            opcode="subtract",
            layer="net/dense",
            phase="update",
            supersteps=(superstep("subtract", compute_cycles=100, busy_tile_cycles=300),),
        ),
    )
    program = TileProgram(
        name="net.train_step",
        target=TARGET,
        steps=steps,
        tensors=(
            _tensor("net/dense/kernel", "net/dense", "weights", 160, 0, 3, always_live=True),
            _tensor("dot.2", "net/dense", "activations", 80, 1, 2),
            _tensor("infeed.1", "", "inputs", 40, 0, 1),
            _tensor("late", "net/late", "activations", 40, 3, 3),
        ),
        memory=TileMemory(
            limit_bytes=1024,
            always_live={"weights": bytes_of(40, 40, 40, 40), "stack": bytes_of(5, 5, 5, 5)},
            not_always_live_peak={"activations": bytes_of(20, 20, 40, 0)},
            peak_step=1,
            live_bytes=bytes_of(200, 260, 240, 200),
            max_tile_bytes=bytes_of(50, 85, 80, 50),
        ),
    )
    return dataclasses.replace(program, **changes)


def _tensor(
    name: str,
    layer: str,
    category: Any,
    size: int,
    first: int,
    last: int,
    *,
    always_live: bool = False,
) -> Tensor:
    return Tensor(
        name=name,
        layer=layer,
        category=category,
        footprint=Footprint(first_tile=0, tiles=4, tile_bytes=size // 4),
        bytes=size,
        first_step=first,
        last_step=last,
        always_live=always_live,
    )


def fault(name: str = "net/dense/MatMul") -> NonFinite:
    """An overflow of a matrix product on three tiles, in a run of replica 1."""
    left = ValueSummary(
        name=f"{name}/x",
        dtype="float16",
        shape=(6, 8),
        low=-3.0,
        high=6e4,
        zeros=1,
        exponents=((-2, 3), (1, 4), (15, 40)),
    )
    right = dataclasses.replace(left, name=f"{name}/kernel", exponents=((0, 80),), zeros=0)
    result = ValueSummary(
        name="result 0", dtype="float16", shape=(6, 10), low=1.0, high=3e38, infinities=1, nans=0
    )
    return NonFinite(
        program="net.train_step",
        run=3,
        fault="overflow",
        op=name,
        op_type="MatMul",
        layer="net/dense",
        operands=(left, right),
        results=(result,),
        position=(0, 2),
        around=(1.0, -2.5, math.inf, -math.inf, math.nan),
        step=1,
        superstep="multiply",
        tiles=3,
        tile_ranges=((0, 1), (3, 3)),
        tile=3,
        ipu=0,
        replica=1,
        iterations=(("while", 4),),
    )


def overflowing() -> DeviceProgram:
    """The same program on tiles of 64 bytes."""
    memory = device_program().memory
    return device_program(memory=dataclasses.replace(memory, limit_bytes=64))


def program(device: DeviceProgram | None = None, dtype: str = "float16") -> Program:
    """The traced function of `device_program`."""
    return Program(
        name="net.train_step",
        tile_ops=[
            TileOp(
                name="net/dense/MatMul",
                layer="net/dense",
                op_type="MatMul",
                shape=MatMulShape(m=6, k=8, n=10, dtype=dtype),
                plan=MatMulPlan(rows=2, columns=2),
                stochastic_rounding=True,
            ),
            TileOp(
                name="net/conv/Conv2D",
                layer="net/conv",
                op_type="Conv2D",
                shape=ConvShape(
                    batch=1,
                    in_rows=4,
                    in_columns=4,
                    in_channels=2,
                    out_channels=3,
                    kernel_rows=3,
                    kernel_columns=3,
                    out_rows=2,
                    out_columns=2,
                ),
                plan=ConvPlan(field_rows=2, grain=8),
                stochastic_rounding=False,
            ),
        ],
        native_ops=[
            NativeOp(name="net/volume", layer="net", op_type="Conv3D", reason="no tile op")
        ],
        device=device,
    )
