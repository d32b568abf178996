"""The table of compositions, which express ops without an XLA kernel by ops that have one.

The program runs the op itself, so its numbers are TensorFlow's. The compiler reads the composition
in its place: the work of the machine, which gives the same numbers up to rounding.

A composition takes the attributes of the op and its inputs, of possibly unknown sizes, and
returns the outputs of the op.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import tensorflow as tf

from ipu_tf.internals.tensorflow import NodeDef
from ipu_tf.runtime.extraction.compositions import (
    candidate_sampling,
    cropping,
    determinants,
    projection,
    random_gamma,
    resizing,
    scaling,
)
from ipu_tf.runtime.tracing import op_attributes as attributes

Composition = Callable[..., tf.Tensor | Sequence[tf.Tensor]]

COMPOSITIONS: Mapping[str, Composition] = MappingProxyType(
    {
        "CropAndResize": cropping.crop_and_resize,
        "CropAndResizeGradBoxes": cropping.gradient_of_boxes,
        "CropAndResizeGradImage": cropping.gradient_of_image,
        "ImageProjectiveTransformV2": projection.transform,
        "ImageProjectiveTransformV3": projection.transform,
        "LogMatrixDeterminant": determinants.log_determinant,
        "LogUniformCandidateSampler": candidate_sampling.log_uniform,
        "MatrixDeterminant": determinants.determinant,
        "ResizeArea": resizing.area,
        "ResizeBicubic": resizing.bicubic,
        "ResizeBicubicGrad": resizing.bicubic_gradient,
        "ResizeNearestNeighborGrad": resizing.nearest_gradient,
        "ScaleAndTranslate": scaling.scale_and_translate,
        "ScaleAndTranslateGrad": scaling.scale_and_translate_gradient,
        "StatelessRandomGammaV3": random_gamma.stateless,
        "UniformCandidateSampler": candidate_sampling.uniform,
    }
)
"""The composition of each op type."""


def concrete_composition(
    node: NodeDef, dtypes: Sequence[int]
) -> tf.types.experimental.ConcreteFunction:
    """Returns the composition of an op.

    Args:
        node: NodeDef of an op of a type in `COMPOSITIONS`.
        dtypes: Types of its inputs.
    """
    composition, own = COMPOSITIONS[node.op], attributes.from_protos(node.attr)

    def composed(*inputs: tf.Tensor) -> Any:
        return composition(own, *inputs)

    composed.__name__ = node.op
    specs = [tf.TensorSpec(None, tf.as_dtype(dtype)) for dtype in dtypes]
    return tf.function(composed, autograph=False).get_concrete_function(*specs)
