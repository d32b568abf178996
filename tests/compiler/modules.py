"""Modules of real steps, for tests: `module("cifar10")` and so on, traced once a process.

`traced` gives the module of any function; `step` that of a Keras model's train step; `text` a
simplified step from a file, without TensorFlow's part. `python -m tests.compiler.modules` writes
these files anew.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from ipu_tf import config
from ipu_tf.compiler.hlo import Module, parse, to_text
from ipu_tf.compiler.passes.simplify import simplify
from ipu_tf.programs.program import Program
from ipu_tf.runtime.extraction import hlo
from ipu_tf.runtime.extraction.hlo_parameters import VariableRoles
from ipu_tf.runtime.tracing import hooks
from ipu_tf.runtime.tracing.tracer import Tracer
from tests.networks import NETWORKS


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """A function that was traced.

    Attributes:
        module: Its HLO.
        program: Its tile ops.
    """

    module: Module
    program: Program


def traced(
    fn: Callable[..., Any], *args: Any, variables: VariableRoles | None = None, name: str = "step"
) -> Traced:
    """Returns what tracing `fn` with tensors like `args` gives, with tile ops, as a run does."""
    found: list[Traced] = []

    def outer(*inner_args: Any) -> Any:
        graph = tf.compat.v1.get_default_graph()
        before = len(graph.get_operations())
        program = Program(name=name)
        tracer = Tracer(program, config.device_configuration())
        with hooks.tracing(tracer):
            outputs = fn(*inner_args)
        tracer.finish(outputs)
        module = hlo.extract(
            graph,
            graph.get_operations()[before:],
            outputs,
            name=name,
            variables=variables or VariableRoles(weights=tracer.trainable_variables),
            layers=hlo.LayerScopes(paths=tracer.layers),
        )
        found.append(Traced(module=module, program=program))
        return outputs

    specs = [tf.TensorSpec.from_tensor(tf.convert_to_tensor(value)) for value in args]
    tf.function(outer, autograph=False).get_concrete_function(*specs)
    return found[-1]


def step(
    model: keras.Model,
    x: np.ndarray,
    y: np.ndarray,
    *,
    loss: str = "categorical_crossentropy",
    optimizer: Any = None,
    name: str = "step",
) -> Traced:
    """Returns the train step of a model, with one optimizer slot a weight by default."""
    model.compile(
        loss=loss,
        optimizer=optimizer or keras.optimizers.SGD(0.016, momentum=0.9),
        metrics=["accuracy"],
    )
    model.optimizer.build(model.trainable_variables)
    model._symbolic_build(data_batch=(x, y))
    variables = VariableRoles(
        weights=model.trainable_variables,
        optimizer_state=model.optimizer.variables,
        states=[*model.non_trainable_variables, *model.metrics_variables],
    )
    return traced(lambda *data: model.train_step(data), x, y, variables=variables, name=name)


def _embedding() -> Traced:
    model = keras.Sequential(
        [
            keras.Input((6,), dtype="int32"),
            layers.Embedding(20, 8),
            layers.Dropout(0.3),
            layers.GlobalAveragePooling1D(),
            layers.Dense(2, activation="softmax"),
        ],
        name="embedding_net",
    )
    return step(model, np.zeros((4, 6), "int32"), np.eye(2, dtype="float32")[[0, 1, 0, 1]])


def _dropout() -> Traced:
    model = keras.Sequential(
        [
            keras.Input((16,)),
            layers.Dense(32, activation="relu"),
            layers.Dropout(0.5),
            layers.Dense(4),
        ],
        name="dropout_net",
    )
    return step(model, np.zeros((8, 16), "float32"), np.zeros((8, 4), "float32"), loss="mse")


def _mixed_precision() -> Traced:
    model = keras.Sequential(
        [
            keras.Input((16,)),
            layers.Dense(32, activation="relu", dtype="mixed_float16"),
            layers.Dense(4, dtype="mixed_float16"),
        ],
        name="mixed_net",
    )
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(1e-3))
    x, y = np.zeros((8, 16), "float32"), np.zeros((8, 4), "float32")
    return step(model, x, y, loss="mse", optimizer=optimizer)


def _gru() -> Traced:
    model = keras.Sequential(
        [
            keras.Input((6,), dtype="int32"),
            layers.Embedding(20, 8),
            layers.GRU(16, return_sequences=True),
            layers.GRU(16),
            layers.Dense(2, activation="softmax"),
        ],
        name="gru_net",
    )
    return step(model, np.zeros((4, 6), "int32"), np.eye(2, dtype="float32")[[0, 1, 0, 1]])


_BUILDERS: dict[str, Callable[[], Traced]] = {
    "embedding": _embedding,
    "dropout": _dropout,
    "mixed_precision": _mixed_precision,
    "gru": _gru,
}

NAMES = (*NETWORKS, *_BUILDERS)
"""What `step_of` and `module` know."""

FAST = ("mlp", "cifar10", "embedding")
"""Those that are traced in a moment: the fast tests share them, and leave the others."""


@functools.cache
def step_of(name: str) -> Traced:
    """Returns the train step of one of the standard networks, batch 4, as it was traced."""
    if name in _BUILDERS:
        return _BUILDERS[name]()
    keras.utils.set_random_seed(0)
    network = NETWORKS[name]
    x, y = network.data(1, seed=0)
    return step(network.build(), x, y, name=name)


def module(name: str) -> Module:
    """Returns the module of one of the standard networks' train steps, before any pass."""
    return step_of(name).module


TEXTS = ("cifar10", "dropout")
_TEXT_FOLDER = Path(__file__).parent / "texts"


def text(name: str) -> Module:
    """Returns the simplified module of one of the `TEXTS`, as a file has it."""
    return parse((_TEXT_FOLDER / f"{name}.hlo.txt").read_text())


if __name__ == "__main__":
    _TEXT_FOLDER.mkdir(exist_ok=True)
    for fixture in TEXTS:
        simple = simplify(module(fixture))
        (_TEXT_FOLDER / f"{fixture}.hlo.txt").write_text(to_text(simple))
