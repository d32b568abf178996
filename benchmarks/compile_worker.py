"""One measurement of the `compile` benchmark, in a process of its own so that no cache is warm.

`python -m benchmarks.compile_worker TASK` prints one JSON object. Peak memory is the process's.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

import ipu_tf
from benchmarks.summary import peak_bytes
from ipu_tf.ops.kernels.numerics import TileNumerics
from ipu_tf.planner.plan import ConvShape
from ipu_tf.runtime.programs import device_programs
from tutorials import cifar10

Build = Callable[[], keras.Model]

_HITS = 1000


def _resnet50() -> keras.Model:
    model = keras.applications.ResNet50(weights=None)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "sparse_categorical_crossentropy")
    return model


def _cifar10() -> keras.Model:
    model = cifar10.make_model()
    model.compile(keras.optimizers.SGD(0.016), "sparse_categorical_crossentropy")
    return model


def _mlp() -> keras.Model:
    dense = keras.layers.Dense
    model = keras.Sequential(
        [keras.Input((784,)), dense(128, activation="relu"), dense(10, activation="softmax")]
    )
    model.compile(keras.optimizers.SGD(0.016), "sparse_categorical_crossentropy")
    return model


def _block() -> keras.Model:
    """A transformer block of 1.8 billion weights: 12,288 features, 96 heads, 128 tokens."""
    width, heads = 12288, 96
    x = inputs = keras.Input((128, width))
    normed = keras.layers.LayerNormalization()(x)
    x = x + keras.layers.MultiHeadAttention(heads, width // heads)(normed, normed)
    hidden = keras.layers.Dense(4 * width, "gelu")(keras.layers.LayerNormalization()(x))
    model = keras.Model(inputs, x + keras.layers.Dense(width)(hidden))
    model.compile("adam", "mse")
    return model


NETWORKS: dict[str, tuple[Build, int]] = {
    "resnet50": (_resnet50, 4),
    "cifar10": (_cifar10, 64),
    "mlp": (_mlp, 32),
    "block": (_block, 1),
}
"""The function that builds each network, compiled, and its batch size."""


class Stopwatch:
    """Seconds spent in a function, all calls together."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextlib.contextmanager
    def on(self, owner: Any, name: str) -> Iterator[None]:
        """Times the calls of `owner.name` meanwhile."""
        function = getattr(owner, name)

        def with_time(*args: Any, **kwargs: Any) -> Any:
            begin = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds += time.perf_counter() - begin

        setattr(owner, name, with_time)
        try:
            yield
        finally:
            setattr(owner, name, function)


def ours(network: str) -> dict[str, Any]:
    """Seconds to plan, extract and compile a network's train step, and those of its estimate."""
    build, batch_size = NETWORKS[network]
    compiling, planning = Stopwatch(), Stopwatch()
    begin = time.perf_counter()
    with (
        compiling.on(device_programs, "compile_trace"),
        planning.on(TileNumerics, "planned"),
    ):
        report = ipu_tf.estimate(build, batch_size=batch_size, insights=False)
    whole = time.perf_counter() - begin
    device = report.programs[0].device
    if device is None:
        raise RuntimeError(f"{network} has no device program.")
    return {
        "seconds": compiling.seconds + planning.seconds,
        "planning_seconds": planning.seconds,
        "estimate_seconds": whole,
        "steps": len(device.steps),
    }


def xla(network: str) -> dict[str, Any]:
    """Seconds that XLA:CPU needs to compile the same function: HLO, passes, machine code."""
    build, batch_size = NETWORKS[network]
    model = build()
    x = tf.zeros((batch_size, *model.inputs[0].shape[1:]))
    y = tf.zeros((batch_size,), tf.int32)
    model._symbolic_build(data_batch=(x, y))
    step = tf.function(lambda x, y: model.train_step((x, y)), autograph=False, jit_compile=True)
    compiler_ir = step.experimental_get_compiler_ir(x, y)  # Traces.
    begin = time.perf_counter()
    compiler_ir(stage="optimized_hlo_serialized")
    return {"seconds": time.perf_counter() - begin}


def hit() -> dict[str, Any]:
    """Seconds of a run whose program is cached, the run of a tiny function included."""
    strategy = ipu_tf.IPUStrategy()
    step = tf.function(lambda x: x + 1.0)
    x = tf.zeros(())
    strategy.run(step, args=(x,))
    begin = time.perf_counter()
    for _ in range(_HITS):
        strategy.run(step, args=(x,))
    return {"seconds": (time.perf_counter() - begin) / _HITS}


def planner() -> dict[str, Any]:
    """Seconds to plan all layers of ResNet-50 for one image, forward, and these layers."""
    planning = Stopwatch()
    with planning.on(TileNumerics, "planned"):
        report = ipu_tf.estimate(
            lambda: keras.applications.ResNet50(weights=None),
            batch_size=1,
            training=False,
            insights=False,
        )
    layers = [_dimensions(op.shape) for op in report.tile_ops]
    return {"seconds": planning.seconds, "layers": layers}


def _dimensions(shape: Any) -> list[int]:
    """Returns a layer in SCALE-Sim's form: padded image, filter, channels, stride."""
    if isinstance(shape, ConvShape):
        top, bottom, left, right = shape.padding
        return [
            shape.in_rows + top + bottom,
            shape.in_columns + left + right,
            shape.kernel_rows,
            shape.kernel_columns,
            shape.in_channels,
            shape.out_channels,
            shape.strides[0],
        ]
    return [shape.m, 1, 1, 1, shape.k, shape.n, 1]


def main() -> None:
    """Runs the measurement that the command line names."""
    task, _, network = sys.argv[1].partition(":")
    results = {"ours": ours, "xla": xla}[task](network) if network else _WITHOUT_NETWORK[task]()
    print(json.dumps({**results, "peak_bytes": peak_bytes()}))


_WITHOUT_NETWORK = {"hit": hit, "planner": planner}

if __name__ == "__main__":
    main()
