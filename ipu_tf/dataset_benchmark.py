"""Measures how fast the host reads datasets."""

from __future__ import annotations

import json
import time
from typing import Any

import tensorflow as tf

from ipu_tf.feeds.infeed_queue import IPUInfeedQueue
from ipu_tf.internals.tensorflow import OwnedIterator


def dataset_benchmark(
    dataset: tf.data.Dataset,
    number_of_epochs: int,
    elements_per_epochs: int,
    print_stats: bool = True,
    apply_debug_options: bool = True,
    do_memcpy: bool = True,
) -> tf.Tensor:
    """Reads a dataset on the host and measures it; nothing goes to the device.

    Args:
        dataset: The dataset, of at least `number_of_epochs * elements_per_epochs` elements.
        number_of_epochs: Number of measurements.
        elements_per_epochs: Elements of a measurement.
        print_stats: Whether to print each measurement.
        apply_debug_options: Accepted without effect.
        do_memcpy: Whether to copy each element, as a transfer to the device does.

    Returns:
        A vector of one string: JSON with a list "epochs" of "elements_processed",
            "total_bytes_processed", "time_elapsed" (s), "elements_per_second" and "bandwidth"
            (GB/s).

    Raises:
        TypeError: It is no dataset.
        ValueError: A number is not positive.
        OutOfRangeError: The dataset has fewer elements.
    """
    del apply_debug_options
    if not isinstance(dataset, tf.data.Dataset):
        raise TypeError(f"dataset_benchmark: pass a tf.data.Dataset. Received: {dataset!r}.")
    for name, number in (
        ("number_of_epochs", number_of_epochs),
        ("elements_per_epochs", elements_per_epochs),
    ):
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ValueError(
                f"dataset_benchmark: {name} must be a positive integer. Received: {number!r}."
            )

    def measure(dataset: tf.data.Dataset) -> Any:
        iterator = OwnedIterator(dataset)  # Not `iter`: in a strategy's scope that makes an infeed.
        epochs = [_epoch(iterator, elements_per_epochs, do_memcpy) for _ in range(number_of_epochs)]
        if print_stats:
            for number, epoch in enumerate(epochs):
                print(
                    f"Epoch {number}: {epoch['elements_per_second']:,.0f} elements/s, "
                    f"{epoch['bandwidth']:.3f} GB/s"
                )
        return tf.constant([json.dumps({"epochs": epochs})])

    if tf.executing_eagerly():
        return measure(dataset)

    def measure_variant(variant: tf.Tensor) -> Any:
        return measure(tf.data.experimental.from_variant(variant, dataset.element_spec))

    # A dataset of a graph may read placeholders, which have values when it runs.
    variant = tf.data.experimental.to_variant(dataset)
    measured = tf.py_function(measure_variant, [variant], tf.string)
    measured.set_shape([1])
    return measured


def infeed_benchmark(
    infeed_queue: IPUInfeedQueue,
    number_of_epochs: int,
    elements_per_epochs: int,
    print_stats: bool = True,
    do_memcpy: bool = True,
) -> tf.Tensor:
    """Measures the dataset of an infeed from its first element; see `dataset_benchmark`.

    Args:
        infeed_queue: The infeed, which is not read.
        number_of_epochs: See there, as for all after it.

    Raises:
        TypeError: It is no infeed; otherwise as there.
    """
    if not isinstance(infeed_queue, IPUInfeedQueue):
        raise TypeError(f"infeed_benchmark: pass an IPUInfeedQueue. Received: {infeed_queue!r}.")
    return dataset_benchmark(
        infeed_queue.dataset, number_of_epochs, elements_per_epochs, print_stats, True, do_memcpy
    )


def _epoch(iterator: Any, elements: int, do_memcpy: bool) -> dict[str, float]:
    """Returns the measurement of some elements."""
    size = 0
    began = time.perf_counter()
    for _ in range(elements):
        try:
            element = next(iterator)
        except StopIteration:
            raise tf.errors.OutOfRangeError(
                None,
                None,
                "The dataset has fewer elements than the benchmark reads: repeat it. "
                f"Received: elements_per_epochs={elements}.",
            ) from None
        for component in tf.nest.flatten(element):
            size += component.dtype.size * component.shape.num_elements()
            if do_memcpy:
                component.numpy().copy()
    seconds = time.perf_counter() - began
    return {
        "elements_processed": elements,
        "total_bytes_processed": size,
        "time_elapsed": seconds,
        "elements_per_second": elements / seconds,
        "bandwidth": size / seconds / 1e9,
    }
