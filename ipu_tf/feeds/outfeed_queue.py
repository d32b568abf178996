"""`IPUOutfeedQueue`: brings tensors of the programs of the device to the host."""

from __future__ import annotations

import enum
import threading
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf

from ipu_tf.config import SyntheticDataCategory
from ipu_tf.feeds import queue_number, shared_programs, synthetic
from ipu_tf.feeds.earlier_arguments import without_earlier_arguments
from ipu_tf.feeds.element_checks import check_types
from ipu_tf.feeds.infeed_queue import check_device_ordinal
from ipu_tf.feeds.trial_readers import TrialReader
from ipu_tf.internals.structures import SpecStructure, TensorStructure
from ipu_tf.ops.kernels import library
from ipu_tf.runtime.tracing import call_order, static_shapes
from ipu_tf.runtime.tracing.hooks import is_scratch


class IPUOutfeedMode(enum.Enum):
    """Which of the enqueued elements the host gets: all of them, or the last one."""

    ALL = "all"
    LAST = "last"


class IPUOutfeedQueue(Iterable[Any]):
    """Brings elements from the programs of the device to the host.

    A program enqueues with one operation in each graph; in the body of a loop the operation runs
    in every iteration. The host dequeues when it wants, on any thread.

    Args:
        outfeed_mode: An `IPUOutfeedMode`; None stands for ALL.
        device_ordinal: Number of the IPU device, which has no effect here.
        buffer_depth: Elements between device and host; positive. The host takes them at once.
        optimise_latency: Has no effect here.

    `feed_name` (also in first place), `replication_factor` and `io_batch_size` of earlier releases
    have no effect.

    Raises:
        ValueError: An argument is out of range.

    Example:
        ```python
        outfeed = IPUOutfeedQueue()

        @tf.function
        def train():
            def body():
                outfeed.enqueue({"loss": step()})
            loops.repeat(100, body)

        strategy.run(train)
        outfeed.dequeue()["loss"]  # of shape [100]
        ```
    """

    @without_earlier_arguments(first=0, values=("all", "last"))
    def __init__(
        self,
        outfeed_mode: IPUOutfeedMode | None = None,
        device_ordinal: int | None = None,
        buffer_depth: int = 3,
        optimise_latency: bool = False,
    ) -> None:
        mode = IPUOutfeedMode.ALL if outfeed_mode is None else outfeed_mode
        if not isinstance(mode, IPUOutfeedMode):
            raise ValueError(
                "Expected outfeed_mode to be an IPUOutfeedMode: ALL or LAST. "
                f"Received: outfeed_mode={outfeed_mode!r}."
            )
        check_device_ordinal(device_ordinal)
        if not (isinstance(buffer_depth, int) and buffer_depth > 0):
            raise ValueError(
                f"buffer_depth must be a positive integer. Received: buffer_depth={buffer_depth!r}."
            )
        del optimise_latency
        self._mode = mode
        self._queue = queue_number.new_outfeed(keeps_last_only=mode is IPUOutfeedMode.LAST)
        self._element: Any = None
        self._thread = threading.get_ident()
        self._trial_reader = TrialReader()
        _by_number[self._queue.number] = self

    @property
    def enqueued(self) -> bool:
        """Whether a program enqueues; in the trace of one, whether it does so far."""
        graph = tf.compat.v1.get_default_graph()
        is_traced = graph.building_function and not tf.executing_eagerly()
        return self._queue.is_used_within(graph) if is_traced else self._element is not None

    @property
    def element_spec(self) -> SpecStructure:
        """Shapes and types of an element, None as long as no program enqueues."""
        return self._element

    @property
    def deleter(self) -> tf.Operation | None:
        """Deletes the queue with its elements: now, or as an operation in a v1 graph.

        Programs that enqueue fail from then on.

        Raises:
            NotFoundError: It was deleted before, or no program enqueues.
        """
        return self._queue.deleter(self._queue.delete)

    def enqueue(self, tensors: TensorStructure) -> tf.Operation:
        """Adds an operation that brings tensors to the host.

        Args:
            tensors: A tensor, or a tuple, list or dict of tensors. The host gets the same
                structure.

        Returns:
            The operation.

        Raises:
            ValueError: The queue was enqueued in this graph before, or a shape is not static.
            RuntimeError: It is called eagerly.
            FailedPreconditionError: A tensor has 64-bit numbers or strings.
            InvalidArgumentError: A tensor is empty.
        """
        if tf.executing_eagerly():
            raise RuntimeError(
                "An IPUOutfeedQueue is enqueued by the device: in a tf.function that "
                "`strategy.run` runs, or in a layer, loss or metric of a Keras model. Received an "
                "eager call; a model whose layers enqueue is built with `model.build(shape)`."
            )
        graph = tf.compat.v1.get_default_graph()
        if is_scratch(graph):  # Keras infers shapes or makes variables.
            return tf.no_op()
        if self._queue.is_used_in(graph):
            raise ValueError(
                "An outfeed can only be enqueued once. Enqueue a tuple or a dict with everything "
                "that the host is to get, or make an IPUOutfeedQueue for each part."
            )
        element = tf.nest.map_structure(tf.convert_to_tensor, tensors)
        components = tf.nest.flatten(element)
        _check(components)
        number = self._queue.tensor()
        if self._element is None:
            self._queue.open()
        self._element = tf.nest.map_structure(lambda t: tf.TensorSpec(t.shape, t.dtype), element)
        if synthetic.is_synthetic(SyntheticDataCategory.OUTFEED):
            return tf.no_op()
        own, count = shared_programs.enqueuing()
        return tf.group(
            *(
                library.load().ipu_enqueue(
                    feed=number, replica=replica, replicas=count, tensors=components
                )
                for replica in own
            )
        )

    def dequeue(self, wait_for_completion: bool = False) -> TensorStructure:
        """Takes the elements that programs have enqueued since the last call.

        Args:
            wait_for_completion: Has no effect: the queue holds every element that a program has
                enqueued so far.

        Returns:
            The structure of an element, with tensors of shape `[elements, *shape]` in mode ALL and
            `shape` in mode LAST; with several replicas an axis of replicas precedes `shape`. On
            another thread than the queue was made on, [] as long as no program enqueues.

        Raises:
            ValueError: No program enqueues.
            FailedPreconditionError: Mode LAST, and nothing was enqueued since the last call.
            RuntimeError: `ipu-tf run --max-steps` cut loops short, and the caller waits for their
                elements in vain.
        """
        del wait_for_completion
        if self._element is None:
            if threading.get_ident() != self._thread:
                return []
            raise ValueError(
                "Trying to dequeue an outfeed which has not been enqueued. Run a program that "
                "enqueues it first."
            )
        if tf.executing_eagerly():
            self._trial_reader.check(is_empty=not self._rows())
        return self._take(limit=-1, stacked=self._mode is IPUOutfeedMode.ALL)

    def __iter__(self) -> Iterator[Any]:
        return IPUOutfeedQueueIterator(self)

    def next_element(self) -> TensorStructure:
        """Takes the oldest element.

        Raises:
            StopIteration: There is none.
        """
        if self._element is None or not self._rows():
            raise StopIteration
        return self._take(limit=1, stacked=False)

    @property
    def mode(self) -> IPUOutfeedMode:
        """Which elements the host gets."""
        return self._mode

    def _rows(self) -> int:
        """Returns how many elements the host can take now."""
        rows: int = library.feed_functions().ipu_tf_outfeed_rows(self._queue.number)
        return rows

    def _take(self, *, limit: int, stacked: bool) -> Any:
        specs = tf.nest.flatten(self._element)
        with call_order.in_order(tf.compat.v1.get_default_graph(), "IpuOutfeedTake"):
            components = library.load().ipu_outfeed_take(
                feed=tf.constant(self._queue.number, tf.int64),
                T=[spec.dtype for spec in specs],
                shapes=[spec.shape for spec in specs],
                limit=limit,
                stacked=stacked,
            )
        if not tf.executing_eagerly():
            call_order.note(components[0].op)
        return tf.nest.pack_sequence_as(self._element, components)


_by_number: weakref.WeakValueDictionary[int, IPUOutfeedQueue] = weakref.WeakValueDictionary()


def outfeed_of(number: int) -> IPUOutfeedQueue | None:
    """Returns the outfeed of a number in the ops of programs, None if there is none any more."""
    return _by_number.get(number)


class IPUOutfeedQueueIterator(Iterator[Any]):
    """Takes the elements of an outfeed one by one, and stops when there is none.

    Args:
        outfeed_queue: A queue of mode ALL.

    Raises:
        RuntimeError: Its mode is LAST, or it is not used eagerly.
    """

    def __init__(self, outfeed_queue: IPUOutfeedQueue) -> None:
        if not tf.executing_eagerly() or outfeed_queue.mode is not IPUOutfeedMode.ALL:
            raise RuntimeError(
                "IPUOutfeedQueue can only be iterated eagerly, and in mode IPUOutfeedMode.ALL. "
                f"Received a queue of mode {outfeed_queue.mode.name}"
                f"{'' if tf.executing_eagerly() else ' inside a graph'}; call `dequeue()`."
            )
        self._queue = outfeed_queue

    def __next__(self) -> Any:
        return self._queue.next_element()


class ScopedIPUOutfeedQueue(IPUOutfeedQueue):
    """An outfeed that is deleted with this object; every queue here is.

    Args:
        outfeed_mode: An `IPUOutfeedMode`; None stands for ALL.
        device_ordinal: Number of the IPU device, which has no effect here.

    Raises:
        RuntimeError: It is made in graph mode.
        ValueError: An argument is out of range.
    """

    def __init__(
        self, outfeed_mode: IPUOutfeedMode | None = None, device_ordinal: int | None = None
    ) -> None:
        if not tf.executing_eagerly():
            raise RuntimeError(
                "ScopedIPUOutfeedQueue can only be made in eager mode. Use an IPUOutfeedQueue."
            )
        super().__init__(outfeed_mode=outfeed_mode, device_ordinal=device_ordinal)


def _check(components: list[tf.Tensor]) -> None:
    if not components:
        raise ValueError("An outfeed enqueues at least one tensor. Received: none.")
    for index, component in enumerate(components):
        if not component.shape.is_fully_defined():
            raise ValueError(
                f"The component on index {index} of feed operation has shape {component.shape} "
                f"which is not fully defined. {static_shapes.advice(component.shape)}"
            )
    check_types(components)
