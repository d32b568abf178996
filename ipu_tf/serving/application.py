"""Programs of files, with their loops and feeds, that run on a thread of this process."""

from __future__ import annotations

import queue
import tempfile
import threading
import time
import weakref
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from ipu_tf import config, replica_context
from ipu_tf.feeds import queue_number, reading
from ipu_tf.internals.tensorflow import eager_mode
from ipu_tf.ops import library
from ipu_tf.serving import application_graph
from ipu_tf.serving.descriptions import InputDescription
from ipu_tf.serving.host_call import host_call
from ipu_tf.serving.served_step import strategy_in_force

_READ_AHEAD = 1
_POLL_SECONDS = 0.0005


class Application:
    """A program of a file; a call gives it an element of its infeed, and takes one of its outfeed.

    The program runs on a thread from its start on, again and again, until this object ends. One
    without feeds runs once, at its start.

    Args:
        archive: The file.
        description: What the file says of the program.
    """

    def __init__(self, archive: Path, description: dict[str, Any]) -> None:
        self._infeed = queue_number.new_infeed(_READ_AHEAD)
        self._outfeed = queue_number.new_outfeed(keeps_last_only=False)
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            with zipfile.ZipFile(archive) as opened:
                opened.extractall(folder)
            feeds = application_graph.feeds_of(folder)
            pairs = (feeds.outfeed, self._outfeed.number), (feeds.infeed, self._infeed.number)
            numbers = {old: number for old, number in pairs if old is not None}
            application_graph.replace_numbers(folder, numbers)
            self._loaded = tf.saved_model.load(str(folder))
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
        self._engine: _Engine | None = None
        self._source: queue.SimpleQueue[tuple[Any, ...] | None] = queue.SimpleQueue()
        weakref.finalize(self, self._source.put, None)  # Ends the thread that waits for inputs.
        self._lock = threading.Lock()

    def start(self, inputs: Sequence[tf.Tensor]) -> list[tf.Tensor] | None:
        """Gives the inputs of the start, and starts the thread.

        Args:
            inputs: The arguments of the program, then the values of its variables.

        Returns:
            The results of a program without feeds.
        """
        parameters = list(self._loaded.parameters)
        arguments = list(inputs[: len(inputs) - len(parameters)])
        for variable, value in zip(parameters, inputs[len(arguments) :], strict=True):
            variable.assign(value)
        program, strategy = self._loaded.program, strategy_in_force(self._strategy)

        @tf.function
        def application(*values: tf.Tensor) -> Any:
            # All IPUs are one replica's: there is one stream of inputs.
            replica_context.require_ipus(config.device_configuration().num_ipus[0])
            return program(*values)

        def run(*values: tf.Tensor) -> Any:
            return strategy.run(application, args=values)

        specs = [tf.TensorSpec(value.shape, value.dtype) for value in arguments]
        concrete = tf.function(run, autograph=False).get_concrete_function(*specs)
        if self.inputs:
            specs = [tf.TensorSpec(one.shape, one.dtype) for one in self.inputs]
            reading.start_pass(self._infeed.number, _dataset_of(self._source, tuple(specs)))
        if not self.outputs:
            return list(tf.nest.flatten(concrete(*arguments)))
        self._engine = _Engine(lambda: concrete(*arguments))
        return None

    def call(self, inputs: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Gives an element to the program; returns the next one that it writes.

        Raises:
            RuntimeError: The program failed.
        """
        if not self.outputs:
            return []
        if tf.executing_eagerly():
            return self._call(*inputs)
        return host_call(self._call, inputs, self.outputs)

    def _call(self, *inputs: tf.Tensor) -> list[tf.Tensor]:
        assert self._engine is not None
        functions = library.feed_functions()
        with self._lock:
            if inputs:
                self._source.put(tuple(tensor.numpy() for tensor in inputs))
            while not functions.ipu_tf_outfeed_rows(self._outfeed.number):
                self._engine.check()
                time.sleep(_POLL_SECONDS)
            return list(
                library.load().ipu_outfeed_take(
                    feed=tf.constant(self._outfeed.number, tf.int64),
                    T=[output.dtype for output in self.outputs],
                    shapes=[output.shape for output in self.outputs],
                    limit=1,
                    stacked=False,
                )
            )


def _dataset_of(
    source: queue.SimpleQueue[tuple[Any, ...] | None], spec: tuple[tf.TensorSpec, ...]
) -> tf.data.Dataset:
    """Returns a dataset that waits for the elements of a queue, up to None."""

    def elements() -> Iterator[tuple[Any, ...]]:
        while (element := source.get()) is not None:
            yield element

    return tf.data.Dataset.from_generator(elements, output_signature=spec)


class _Engine:
    """Runs a program again and again on a thread, until it fails: its queues end with their owner.

    Args:
        run: Runs the program once.
    """

    def __init__(self, run: Callable[[], Any]) -> None:
        self._run = run
        self._error: Exception | None = None
        threading.Thread(target=self._work, name="ipu_tf_application", daemon=True).start()

    def check(self) -> None:
        """Raises the error of the program, if it failed."""
        if self._error is not None:
            raise RuntimeError(f"The application failed: {self._error}") from self._error

    @eager_mode()  # Beside graphs of TensorFlow 1, a thread would build a graph.
    def _work(self) -> None:
        try:
            while True:
                self._run()
        except Exception as error:
            self._error = error
