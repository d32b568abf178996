"""Exported programs as objects that run on the device of this process."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NotRequired, Protocol, TypedDict

import tensorflow as tf

from ipu_tf.internals.graphs import graph_of_session
from ipu_tf.serving.application import Application
from ipu_tf.serving.descriptions import InputDescription, InputFields
from ipu_tf.serving.host_call import host_call
from ipu_tf.serving.pipeline_loader import DescribedPipeline, LoadedPipeline
from ipu_tf.serving.program_files import DESCRIPTION
from ipu_tf.serving.serving_step import Predictor, strategy_in_force


class Executable(Protocol):
    """A program that runs on the device of this process."""

    @property
    def start_inputs(self) -> tuple[InputDescription, ...]:
        """The inputs of its start."""

    @property
    def inputs(self) -> tuple[InputDescription, ...]:
        """The inputs of a call."""

    @property
    def outputs(self) -> tuple[InputDescription, ...]:
        """The results of a call."""

    def start(self, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
        """Starts the program; returns the results of the start."""

    def call(self, inputs: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Runs a step; returns its results."""


class ProgramDescription(TypedDict):
    """What the folder of a program says of it."""

    inputs: list[InputFields]
    iterations: int
    pipeline: NotRequired[DescribedPipeline | None]


class SavedProgram:
    """The step of the device of an exported SavedModel; it has no inputs at its start.

    Args:
        folder: The folder of the SavedModel.
        description: What the folder says of the program.
        name: Name of the program in reports.
    """

    start_inputs: tuple[InputDescription, ...] = ()

    def __init__(self, folder: Path, description: ProgramDescription, name: str) -> None:
        self._saved_model = tf.saved_model.load(str(folder))
        program, iterations = self._saved_model.program, description["iterations"]
        pipeline = description.get("pipeline")
        self._predictor = (
            Predictor(program, iterations)
            if pipeline is None
            else LoadedPipeline(program, iterations, pipeline)
        )
        self._predictor.name = name
        self.inputs = tuple(InputDescription.of(**one) for one in description["inputs"])
        (concrete,) = self._saved_model.program.concrete_functions
        flat = tf.nest.flatten(concrete.structured_outputs)
        self.outputs = tuple(
            InputDescription(name=f"output_{number}", shape=spec.shape, dtype=spec.dtype)
            for number, spec in enumerate(flat)
        )
        self._strategy = strategy_in_force()
        self._run = tf.function(self._on_device, autograph=False)

    def start(self, inputs: Sequence[tf.Tensor]) -> None:
        """Starts the program, which loaded its weights already."""
        del inputs

    def call(self, inputs: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Returns the results of a step on the device."""
        if graph_of_session() is not None and not tf.executing_eagerly():
            # A session has none of the program's variables.
            return host_call(self._run, inputs, self.outputs)
        return list(self._run(*inputs))

    def _on_device(self, *inputs: tf.Tensor) -> list[tf.Tensor]:
        strategy = strategy_in_force(self._strategy)
        return tf.nest.flatten(strategy.run(self._predictor.predict_step, args=inputs))


def load_executable(path: str | os.PathLike[str], name: str) -> Executable:
    """Returns an exported program.

    Args:
        path: The folder of an exported SavedModel, or the file of a compiled application.
        name: Name of the program in reports.

    Raises:
        ValueError: There is none.
    """
    where = Path(os.fspath(path))
    if (where / DESCRIPTION).is_file():
        return SavedProgram(where, json.loads((where / DESCRIPTION).read_text()), name)
    if where.is_file() and zipfile.is_zipfile(where):
        with zipfile.ZipFile(where) as archive:
            if str(DESCRIPTION) in archive.namelist():
                return Application(where, json.loads(archive.read(str(DESCRIPTION))))
    raise ValueError(
        f"'{where}' is no exported program. Pass the folder that `serving.export_single_step`, "
        "`export_pipeline`, `export_keras` or `export_for_ipu_serving` wrote, or the file of "
        "`experimental_application_compile_op`."
    )
