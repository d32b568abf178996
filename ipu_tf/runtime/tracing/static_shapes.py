"""Advice for data whose shape is not static; the IPU requires static shapes."""

from __future__ import annotations

import tensorflow as tf

from ipu_tf.internals.tensorflow import dataset_drops_remainder, dataset_inputs

_TO_DENSE = {
    "RaggedTensor": "`to_tensor(shape=...)`",
    "SparseTensor": "`tf.sparse.to_dense`",
}


def is_static(value: object) -> bool:
    """Returns whether all tensors in a value have static shapes.

    Args:
        value: Anything. A value that is not a tensor is static.
    """
    parts = tf.nest.flatten(value, expand_composites=True)
    return all(part.shape.is_fully_defined() for part in parts if isinstance(part, tf.Tensor))


def not_dense(value: object) -> str | None:
    """Returns the kind of a tensor or its spec, and how to make it dense; None if it is dense.

    Args:
        value: Anything. A value that is neither a tensor nor a matrix of SciPy counts as dense.
    """
    if type(value).__module__.startswith("scipy.sparse"):
        return (
            f"a sparse {type(value).__name__} of SciPy. The IPU takes dense tensors of static "
            "shape: turn it into an array with its method `toarray()`"
        )
    if not isinstance(value, tf.TypeSpec | tf.RaggedTensor | tf.SparseTensor):
        return None
    if isinstance(value, tf.TensorSpec) or not hasattr(value, "shape"):
        return None
    kind = value.value_type if isinstance(value, tf.TypeSpec) else type(value)
    way = _TO_DENSE.get(kind.__name__, "`tf.convert_to_tensor`")
    return (
        f"a {kind.__name__}. The IPU takes dense tensors of static shape: turn it into one with "
        f"{way}, and fix its shape with `tf.ensure_shape`"
    )


def check_static_shapes(dataset: tf.data.Dataset) -> None:
    """Checks that every component of a dataset's elements is dense and has a static shape.

    Raises:
        ValueError: A component is not.
    """
    for spec in tf.nest.flatten(dataset.element_spec):
        if sparse := not_dense(spec):
            raise ValueError(f"The dataset yields {sparse} in `Dataset.map`.")
        shape = getattr(spec, "shape", tf.TensorShape(None))
        if not shape.is_fully_defined():
            raise ValueError(f"Output shape {shape} is not fully defined. {advice(shape, dataset)}")


def advice(shape: tf.TensorShape, dataset: tf.data.Dataset | None = None) -> str:
    """Returns how to make a shape static, in full sentences.

    Args:
        shape: A shape that is not fully defined.
        dataset: The dataset that yields it, None if unknown.
    """
    batch_varies = shape.rank is None or shape[0] is None
    others_vary = shape.rank is None or not shape[1:].is_fully_defined()
    drops = None if dataset is None else drops_remainder(dataset)
    sentences = []
    if batch_varies and not drops:
        sentences.append("If using tf.Dataset.batch, set `drop_remainder=True`.")
    if others_vary or drops is not False:
        sentences.append(
            "Give what a function or a layer makes, such as TextVectorization, its shape with "
            "`tf.ensure_shape`; in a dataset, in `Dataset.map`."
        )
    return " ".join([*sentences, "Shapes are static on the IPU."])


def drops_remainder(dataset: tf.data.Dataset) -> bool | None:
    """Returns whether all batches of a dataset have one size, None if it shows no batching.

    Of several batching transformations, the last one counts.
    """
    drops = dataset_drops_remainder(dataset)
    if drops is not None:
        constant = tf.get_static_value(drops)
        return None if constant is None else bool(constant)
    inputs = [drops_remainder(source) for source in dataset_inputs(dataset)]
    answers = [drops_here for drops_here in inputs if drops_here is not None]
    return all(answers) if answers else None
