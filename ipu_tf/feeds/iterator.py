"""Iterators over datasets that only the programs of the device can read."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_tf.feeds.infeed_queue import IPUInfeedQueue, dequeued
from ipu_tf.internals.structures import SpecStructure, TensorStructure
from ipu_tf.internals.tensorflow import IteratorSpec, OwnedIterator, elements_of
from ipu_tf.runtime.tracing import feed_numbers

_EAGER_ERROR = (
    "An IPUOwnedIterator can not be accessed in eager mode when inside 'IPUStrategy': it feeds the "
    "device. Read it inside of a tf.function that `strategy.run` runs, or create the strategy with "
    "`enable_dataset_iterators=False`. A Keras model that was made outside of the scope reads its "
    "data on the host: make it in the scope, or leave the scope."
)


class IPUIteratorSpec(IteratorSpec):
    """The type of an iterator as an argument of a function: that of its elements."""

    @property
    def value_type(self) -> type:
        """The class of the values."""
        return IPUOwnedIterator

    @property
    def _component_specs(self) -> tf.TensorSpec:
        return tf.TensorSpec((), tf.int32)

    def _to_components(self, value: IPUIterator) -> tf.Tensor:
        return value.infeed_spec

    def _from_components(self, components: Any) -> IPUOwnedIterator:
        if isinstance(components, tf.Tensor) and not tf.executing_eagerly():
            feed_numbers.mark(components)
        return IPUOwnedIterator(infeed_spec=components, element_spec=elements_of(self))

    @staticmethod
    def from_value(value: IPUIterator) -> IPUIteratorSpec:
        """Returns the type of `value`."""
        return IPUIteratorSpec(value.element_spec)


class IPUIterator(OwnedIterator):
    """Reads a dataset of static shapes inside of functions, through an infeed.

    On R replicas the k-th read of replica r gets element k * R + r.

    Args:
        dataset: The dataset.
        infeed_spec: The number of the infeed of an iterator that exists, an int32 scalar, in place
            of a dataset.
        element_spec: Shapes and types of its elements.
        **kwargs: Further arguments of the `IPUInfeedQueue` of the dataset.

    Raises:
        ValueError: An element's shape is not static, or there is neither a dataset nor the spec of
            an infeed.
    """

    def __init__(
        self,
        dataset: tf.data.Dataset | None = None,
        infeed_spec: SpecStructure = None,
        element_spec: SpecStructure = None,
        **kwargs: object,
    ) -> None:
        if dataset is not None:
            if infeed_spec is not None or element_spec is not None:
                raise ValueError(
                    "An IPUIterator takes either `dataset`, or `infeed_spec` and `element_spec`. "
                    "Received both."
                )
            self._infeed = IPUInfeedQueue(dataset, **kwargs)
            infeed_spec, element_spec = self._infeed.eager_number(), dataset.element_spec
        elif infeed_spec is None or element_spec is None:
            raise ValueError(
                "An IPUIterator takes either `dataset`, or `infeed_spec` and `element_spec`. "
                f"Received: infeed_spec={infeed_spec!r}, element_spec={element_spec!r}."
            )
        self._number, self._elements = infeed_spec, element_spec

    @property
    def element_spec(self) -> SpecStructure:
        """Shapes and types of an element."""
        return self._elements

    @property
    def infeed_spec(self) -> tf.Tensor:
        """The number of the infeed that it reads, an int32 scalar."""
        return self._number

    @property
    def _type_spec(self) -> IPUIteratorSpec:
        return IPUIteratorSpec(self._elements)

    def __next__(self) -> Any:
        return self.get_next()

    def next(self) -> TensorStructure:
        """Returns the next element, inside a function."""
        return self.get_next()

    def get_next(self, name: str | None = None) -> TensorStructure:
        """Returns the next element, inside a function.

        Raises:
            RuntimeError: It is called eagerly.
        """
        if tf.executing_eagerly():
            raise RuntimeError(_EAGER_ERROR)
        return dequeued(self._number_here(), self._elements, name)

    def get_next_as_optional(self) -> tf.experimental.Optional:
        """Always raises: an infeed has no optional elements."""
        raise NotImplementedError(
            "`get_next_as_optional` does not work on an IPUOwnedIterator: an infeed always has "
            "its next element. Use `get_next()`."
        )

    def _number_here(self) -> tf.Tensor:
        """Returns the number of the infeed in the graph that is being built."""
        infeed = getattr(self, "_infeed", None)
        return self._number if infeed is None else infeed.number_in_graph()

    def _serialize_to_tensors(self) -> Any:
        raise NotImplementedError(
            "An IPUOwnedIterator can not be saved in a checkpoint. Save the number of elements "
            "that were read, and `skip` them in the dataset."
        )

    def _restore_from_tensors(self, restored_tensors: Any) -> Any:
        raise NotImplementedError(
            "An IPUOwnedIterator can not be restored from a checkpoint. `skip` the elements that "
            "were read before in the dataset."
        )


class IPUOwnedIterator(IPUIterator):
    """An iterator that lives as long as this object: what `iter(dataset)` returns in a scope."""
