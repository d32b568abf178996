"""Programs of files, with their loops and feeds, that run on a thread of this process."""

from __future__ import annotations

import tempfile
import threading
import weakref
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypedDict

import tensorflow as tf

from ipu_tf import config
from ipu_tf.feeds import queue_number, trial_readers
from ipu_tf.internals.tensorflow import eager_mode
from ipu_tf.ops.kernels import library, replica_context
from ipu_tf.serving import application_graph
from ipu_tf.serving.descriptions import InputDescription, InputFields
from ipu_tf.serving.serving_step import strategy_in_force

_READ_AHEAD = 1


class ApplicationDescription(TypedDict):
    """What the file of a program says of it."""

    start_inputs: list[InputFields]
    output_shapes: list[list[int] | None] | None


class Application:
    """A program of a file; a call gives it an element of its infeed, and takes one of its outfeed.

    The program runs on a thread, again and again as calls wait for it, until this object ends. One
    without feeds runs once, at its start.

    Args:
        archive: The file.
        description: What the file says of the program.
    """

    def __init__(self, archive: Path, description: ApplicationDescription) -> None:
        self._infeed = queue_number.new_infeed(_READ_AHEAD)
        self._outfeed = queue_number.new_outfeed(keeps_last_only=False)
        with tempfile.TemporaryDirectory() as path:
            folder = Path(path)
            with zipfile.ZipFile(archive) as archive_file:
                archive_file.extractall(folder)
            feeds = application_graph.feeds_of(application_graph.functions_in(folder))
            pairs = (feeds.outfeed, self._outfeed.number), (feeds.infeed, self._infeed.number)
            numbers = {old: number for old, number in pairs if old is not None}
            application_graph.replace_numbers(folder, numbers)
            self._program_file = tf.saved_model.load(str(folder))
        self.start_inputs = tuple(InputDescription.of(**one) for one in description["start_inputs"])
        self.inputs = tuple(
            InputDescription(name=f"input_{number}", shape=spec.shape, dtype=spec.dtype)
            for number, spec in enumerate(feeds.inputs)
        )
        shapes = description["output_shapes"] or [None] * len(feeds.outputs)
        self.outputs = tuple(
            InputDescription(name=f"output_{number}", shape=tf.TensorShape(shape), dtype=dtype)
            for number, (shape, dtype) in enumerate(zip(shapes, feeds.outputs, strict=True))
        )
        self._strategy = strategy_in_force()

    def start(self, inputs: Sequence[tf.Tensor]) -> list[tf.Tensor] | None:
        """Gives the inputs of the start, and starts the thread.

        Args:
            inputs: The arguments of the program, then the values of its variables.

        Returns:
            The results of a program without feeds.
        """
        parameters = list(self._program_file.parameters)
        arguments = list(inputs[: len(inputs) - len(parameters)])
        for variable, value in zip(parameters, inputs[len(arguments) :], strict=True):
            variable.assign(value)
        program, strategy = self._program_file.program, strategy_in_force(self._strategy)

        @tf.function
        def application(*values: tf.Tensor) -> Any:
            # All IPUs are one replica's: there is one stream of inputs.
            replica_context.require_ipus(config.device_configuration().num_ipus[0])
            return program(*values)

        def run(*values: tf.Tensor) -> Any:
            return strategy.run(application, args=values)

        specs = [tf.TensorSpec(value.shape, value.dtype) for value in arguments]
        concrete = tf.function(run, autograph=False).get_concrete_function(*specs)
        if not (self.inputs or self.outputs):
            return list(tf.nest.flatten(concrete(*arguments)))
        threading.Thread(
            target=_run_on_demand,
            args=(self._outfeed.number, bool(self.outputs), lambda: concrete(*arguments)),
            name="ipu_tf_application",
            daemon=True,
        ).start()
        return None

    def call(self, inputs: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Gives an element to the program; returns the next one that it writes.

        Where the program writes none, a graph gets the operation instead, for a session to run.

        Raises:
            RuntimeError: The program failed. In a graph, the run of the graph raises an
                `InternalError` instead.
        """
        if not (self.inputs or self.outputs):
            return []
        if not tf.executing_eagerly():
            _keep_with_graphs(self)
        try:
            results = library.load().ipu_call_application(
                inputs=inputs,
                infeed=self._infeed.number,
                outfeed=self._outfeed.number,
                output_types=[output.dtype for output in self.outputs],
                output_shapes=[output.shape for output in self.outputs],
            )
        except tf.errors.InternalError as error:
            raise RuntimeError(error.message) from error
        return [results] if isinstance(results, tf.Operation) else list(results or ())


_in_graphs: weakref.WeakKeyDictionary[Any, list[Application]] = weakref.WeakKeyDictionary()
"""The applications that the ops of a graph call; they do not end before the graph."""


def _keep_with_graphs(application: Application) -> None:
    """Keeps an application as long as the graph that is being built, and those around it."""
    graph = tf.compat.v1.get_default_graph()
    while graph is not None:
        _in_graphs.setdefault(graph, []).append(application)
        graph = getattr(graph, "outer_graph", None)


@eager_mode()  # Beside graphs of TensorFlow 1, a thread would build a graph.
def _run_on_demand(outfeed: int, writes: bool, run: Callable[[], Any]) -> None:
    """Runs a program whenever a call waits for its outfeed, until it fails or the outfeed ends.

    Args:
        outfeed: Number of the outfeed.
        writes: Whether the program writes it. Otherwise it waits for its infeed.
        run: Runs the program once.
    """
    functions = library.feed_functions()
    try:
        with trial_readers.unread():
            while not writes or functions.ipu_tf_outfeed_wait(outfeed):
                run()
    except Exception as error:
        message = f"The application failed: {error}"
        functions.ipu_tf_outfeed_end(outfeed, tf.errors.INTERNAL, message.encode())
