"""`IPUInfeedQueue`: feeds the elements of a dataset to the programs of the device."""

from __future__ import annotations

from typing import Any, NoReturn

import tensorflow as tf

from ipu_tf.config import SyntheticDataCategory, poplar_flags
from ipu_tf.feeds import queue_number, reading, synthetic
from ipu_tf.feeds.earlier_arguments import without_earlier_arguments
from ipu_tf.feeds.element_checks import check_types
from ipu_tf.internals.graphs import is_eager
from ipu_tf.internals.structures import SpecStructure, TensorStructure
from ipu_tf.internals.tensorflow import FuncGraph
from ipu_tf.ops.kernels import library, replica_context
from ipu_tf.runtime.tracing.static_shapes import check_static_shapes

_DEFAULT_PREFETCH_DEPTH = 3
_MAX_PREFETCH_DEPTH = 255

_READ_AHEAD_ELEMENTS = 64
_READ_AHEAD_BYTES = 1 << 20
"""Small elements are read further ahead than `prefetch_depth` says, up to this: waking the thread
that reads takes as long as reading tens of them."""


class IPUInfeedQueue:
    """Feeds the elements of a dataset to programs, one at each `dequeue`.

    `loops.repeat`, `loops.while_loop` and pipelines dequeue it once an iteration. The host begins
    to read when a program first dequeues, and reads ahead. A program that dequeues beyond the last
    element fails with `tf.errors.OutOfRangeError`; so repeat the dataset.

    On R replicas the k-th dequeue of replica r gets element k * R + r.

    Args:
        dataset: A dataset of dense elements of static shape.
        device_ordinal: Number of the IPU device, which has no effect here.
        prefetch_depth: Elements that the host holds ready at least, 1 to 255; None and 0 stand
            for 3.
        optimise_latency: Has no effect here.
        **kwargs: Arguments of earlier releases, `feed_name` (also in second place),
            `replication_factor` and `data_to_prefetch`; they have no effect.

    Raises:
        TypeError: The dataset is no `tf.data.Dataset`, or there is no argument of that name.
        ValueError: A shape is not static, or an argument is out of range.

    Example:
        ```python
        infeed = IPUInfeedQueue(dataset.repeat())

        @tf.function
        def train():
            return loops.repeat(100, step, [], infeed)

        strategy.run(train)
        ```
    """

    @without_earlier_arguments(first=1)
    def __init__(
        self,
        dataset: tf.data.Dataset,
        device_ordinal: int | None = None,
        prefetch_depth: int | None = None,
        optimise_latency: bool = False,
        **kwargs: object,
    ) -> None:
        if kwargs:
            raise TypeError(
                "IPUInfeedQueue takes dataset, device_ordinal, prefetch_depth and "
                f"optimise_latency. Received: {', '.join(sorted(kwargs))}."
            )
        check_device_ordinal(device_ordinal)
        del optimise_latency
        if not isinstance(dataset, tf.data.Dataset):
            raise TypeError(
                "The dataset of an IPUInfeedQueue must be a tf.data.Dataset, such as "
                f"tf.data.Dataset.from_tensor_slices(...). Received: {type(dataset).__name__}."
            )
        check_static_shapes(dataset)
        self._dataset = dataset
        self._components = tf.nest.flatten(dataset.element_spec)
        self._queue = queue_number.new_infeed(
            max(_prefetch_depth(prefetch_depth), _read_ahead(self._components))
        )
        self._dequeued = False
        self._initializer_was_read = False
        self._initializer: Any = None
        if tf.executing_eagerly():
            self._restart()
        else:
            reading.wait_for_initializer(self._queue.number)
            # A graph may be final when the initializer is read. In a function it would run.
            if not isinstance(tf.compat.v1.get_default_graph(), FuncGraph):
                self._initializer = self._graph_initializer()

    @property
    def dataset(self) -> tf.data.Dataset:
        """The dataset that it reads."""
        return self._dataset

    @property
    def element_spec(self) -> SpecStructure:
        """Shapes and types of an element."""
        return self._dataset.element_spec

    @property
    def dequeued(self) -> bool:
        """Whether a program dequeues it."""
        return self._dequeued

    @property
    def number_of_tuple_elements(self) -> int:
        """Number of tensors in an element."""
        return len(self._components)

    @property
    def initializer(self) -> tf.Operation:
        """Restarts the dataset from its first element: now, or as an operation in a v1 graph.

        Raises:
            ValueError: It is read twice in graph mode.
        """
        if tf.executing_eagerly():
            self._restart()
            return None
        if self._initializer_was_read:
            raise ValueError(
                "The IPUInfeedQueue `initializer` function can only be accessed once in graph "
                "mode. Keep the operation, and run it again to restart the dataset."
            )
        self._initializer_was_read = True
        if self._initializer is None:
            self._initializer = self._graph_initializer()
        return self._initializer

    def _graph_initializer(self) -> Any:
        """Returns an operation of the graph that restarts the dataset."""
        variant = tf.data.experimental.to_variant(self._dataset)
        if is_eager(variant):
            return tf.numpy_function(self._restart, [], [])
        # The dataset is a tensor of the graph: a session that runs the operation has its value.
        return tf.py_function(self._restart_from, [variant], [])

    @property
    def deleter(self) -> tf.Operation | None:
        """Deletes the queue: now, or as an operation in a v1 graph.

        Programs that use it fail from then on, until its `initializer` restarts the dataset.

        Raises:
            NotFoundError: It was deleted before, or its `initializer` did not run.
        """
        return self._queue.deleter(lambda: reading.end_deleted(self._queue.number))

    def get_next(self) -> NoReturn:
        """Always raises: loops and pipelines dequeue.

        Raises:
            ValueError: Always.
        """
        raise ValueError(
            "`get_next` of an IPUInfeedQueue is obsolete. Pass the queue to `loops.repeat`, "
            "`loops.while_loop` or `pipelining_ops.pipeline`, whose bodies get its elements."
        )

    def dequeue(self) -> TensorStructure:
        """Returns the next element of the replica, in a function that the strategy runs.

        Raises:
            RuntimeError: It is called eagerly.
            FailedPreconditionError: The elements have 64-bit numbers or strings.
            InvalidArgumentError: A component of the elements is empty.
        """
        if tf.executing_eagerly():
            raise RuntimeError(
                "An IPUInfeedQueue feeds the device: it is dequeued by loops and pipelines in a "
                "tf.function that `strategy.run` runs, not eagerly."
            )
        check_types(self._components)
        self._dequeued = True
        return dequeued(self.number_in_graph(), self._dataset.element_spec)

    _dequeue = dequeue  # Published scripts call it by this name.

    def number_in_graph(self) -> tf.Tensor:
        """Returns the number of the queue as a constant of the graph that is being built."""
        return self._queue.tensor()

    def eager_number(self) -> tf.Tensor:
        """Returns the number of the queue as an eager int32 scalar."""
        with tf.init_scope():
            return tf.constant(self._queue.number, tf.int32)

    def _restart_from(self, variant: tf.Tensor) -> None:
        library.load().ipu_keep_dataset(dataset=variant)
        self._dataset = tf.data.experimental.from_variant(variant, self.element_spec)
        self._restart()

    def _restart(self) -> None:
        self._queue.open()
        is_read = not poplar_flags().null_data_feed
        reading.start_pass(
            self._queue.number, self._dataset if is_read else synthetic.zeros(self.element_spec)
        )


tf.no_gradient("IpuDequeue")


def dequeued(
    number: tf.Tensor, element_spec: SpecStructure, name: str | None = None
) -> TensorStructure:
    """Returns the next element of an infeed in the graph that is being built.

    Args:
        number: Number of the infeed, an int32 scalar.
        element_spec: Shapes and types of its elements.
        name: Name of the operation.
    """
    specs = tf.nest.flatten(element_spec)
    if synthetic.is_synthetic(SyntheticDataCategory.INFEED):
        components = synthetic.element(specs)
    else:
        components = library.load().ipu_dequeue(
            feed=number,
            replica=replica_context.local_index(),
            replicas=replica_context.local_replicas(),
            output_types=[spec.dtype for spec in specs],
            output_shapes=[spec.shape for spec in specs],
            name=name,
        )
    return tf.nest.pack_sequence_as(element_spec, components)


def check_device_ordinal(device_ordinal: int | None) -> None:
    """Checks the number of an IPU device.

    Raises:
        ValueError: It is neither None nor a whole number from 0 on.
    """
    if device_ordinal is None:
        return
    if isinstance(device_ordinal, bool) or not isinstance(device_ordinal, int):
        raise ValueError(
            f"Device ordinal must be an integer. Received: device_ordinal={device_ordinal!r}."
        )
    if device_ordinal < 0:
        raise ValueError(f"Device ordinal must be >= 0. Received: device_ordinal={device_ordinal}.")


def _prefetch_depth(depth: int | None) -> int:
    if not depth and depth is not False:
        return _DEFAULT_PREFETCH_DEPTH
    if isinstance(depth, bool) or not isinstance(depth, int):
        raise ValueError(f"prefetch_depth must be an integer. Received: prefetch_depth={depth!r}.")
    if not 1 <= depth <= _MAX_PREFETCH_DEPTH:
        raise ValueError(
            f"prefetch_depth must be from 1 to {_MAX_PREFETCH_DEPTH}. "
            f"Received: prefetch_depth={depth}."
        )
    return depth


def _read_ahead(components: list[Any]) -> int:
    """Returns how many elements are read ahead because they are small."""
    size = sum(part.shape.num_elements() * part.dtype.size for part in components)
    return min(_READ_AHEAD_ELEMENTS, _READ_AHEAD_BYTES // max(size, 1))
