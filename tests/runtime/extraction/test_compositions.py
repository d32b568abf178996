"""Ops that XLA has no kernel for: what the compiler reads in their place gives the same numbers."""

import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy
from ipu_tf.internals.tensorflow import op_def_registry
from ipu_tf.runtime.extraction.compositions import COMPOSITIONS, concrete_composition
from tests.grids import covering

IMAGES = [(2, 5, 7, 3), (1, 1, 4, 2), (3, 8, 8, 1)]
SIZES = [(5, 7), (10, 3), (1, 1), (4, 16)]
SIDES = list(itertools.product(IMAGES, SIZES))
INPUT_NAMES = {op: [a.name for a in op_def_registry.get(op).input_arg] for op in COMPOSITIONS}


def floats(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def integers(*values):
    return np.array(values, "int32")


class Composed:
    """An op and its composition, traced once for inputs of any sizes."""

    def __init__(self, op, dtypes, **attributes):
        self.op = functools.partial(getattr(tf.raw_ops, op), **attributes)
        self.names = INPUT_NAMES[op]
        specs = [tf.TensorSpec(None, dtype) for dtype in dtypes]
        stock = tf.function(self.stock).get_concrete_function(*specs)
        node = next(n for n in stock.graph.as_graph_def().node if n.op == op)
        self.composition = concrete_composition(node, [s.dtype.as_datatype_enum for s in specs])

    def stock(self, *inputs):
        return self.op(**dict(zip(self.names, inputs, strict=True)))

    def check(self, *inputs, atol=2e-5):
        expected = self.stock(*inputs)
        result = self.composition(*(tf.constant(value) for value in inputs))
        assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(result, expected, rtol=2e-5, atol=atol)


@pytest.mark.parametrize(
    "alignment",
    [
        {"align_corners": False, "half_pixel_centers": False},
        {"align_corners": True, "half_pixel_centers": False},
        {"align_corners": False, "half_pixel_centers": True},
    ],
    ids=["legacy", "corners", "centres"],
)
class TestResizing:
    @pytest.mark.fast_cells(1)
    def test_bicubic(self, alignment):
        composed = Composed("ResizeBicubic", ["float32", "int32"], **alignment)
        for image, size in SIDES:
            composed.check(floats(*image), integers(*size))

    @pytest.mark.slow
    def test_bicubic_gradient(self, alignment):
        composed = Composed("ResizeBicubicGrad", ["float32", "float32"], **alignment)
        for image, size in SIDES:
            composed.check(floats(image[0], *size, image[3]), floats(*image))

    @pytest.mark.fast_cells(1)
    def test_nearest_gradient(self, alignment):
        composed = Composed("ResizeNearestNeighborGrad", ["float32", "int32"], **alignment)
        for image, size in SIDES:
            composed.check(floats(image[0], *size, image[3]), integers(*image[1:3]))


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("align_corners", [False, True])
def test_area(align_corners):
    composed = Composed("ResizeArea", ["float32", "int32"], align_corners=align_corners)
    for image, size in SIDES:
        if not align_corners or 1 not in image[1:3]:  # TensorFlow divides by zero there.
            composed.check(floats(*image), integers(*size))


KERNELS = (
    *("lanczos1", "lanczos3", "lanczos5"),
    *("gaussian", "box", "triangle", "keyscubic", "mitchellcubic"),
)


@pytest.mark.parametrize(*covering(1, kernel=KERNELS, antialias=[False, True]))
@pytest.mark.slow
def test_scale_and_translate(kernel, antialias):
    options = {"kernel_type": kernel, "antialias": antialias}
    forward = Composed("ScaleAndTranslate", ["float32", "int32", "float32", "float32"], **options)
    gradient = Composed("ScaleAndTranslateGrad", ["float32"] * 4, **options)
    for image, size in SIDES:
        scale = np.array(size, "float32") / np.array(image[1:3], "float32")
        for stretch, translation in ((1.0, (0, 0)), (1.3, (0.7, -0.4))):
            placed = np.float32(stretch) * scale, np.array(translation, "float32")
            forward.check(floats(*image), integers(*size), *placed)
            gradient.check(floats(image[0], *size, image[3]), floats(*image), *placed)


@pytest.mark.parametrize(
    *covering(
        2,
        dtype=["float32", "float16", "uint8"],
        interpolation=["NEAREST", "BILINEAR"],
        fill_mode=["CONSTANT", "NEAREST", "REFLECT", "WRAP"],
    )
)
@pytest.mark.fast_cells(1)
def test_projective_transform(fill_mode, interpolation, dtype):
    composed = Composed(
        "ImageProjectiveTransformV3",
        [dtype, "float32", "int32", "float32"],
        fill_mode=fill_mode,
        interpolation=interpolation,
    )
    spread = np.array([0.5, 0.5, 3, 0.5, 0.5, 3, 0.02, 0.02], "float32")
    far_left_half_a_pixel_up_and_infinite = np.array([[1, 0, -9, 0, 1, 0.5, -0.5, 0]], "float32")
    for image, size in SIDES:
        images = (100 * np.abs(floats(*image))).astype(dtype)
        each = np.eye(3).ravel()[:8].astype("float32") + spread * floats(image[0], 8, seed=1)
        for transforms in (each, each[:1], far_left_half_a_pixel_up_and_infinite):
            # Rounded to whole numbers or to float16 in the end.
            atol = {"float32": 2e-3, "float16": 0.3, "uint8": 1.0}[dtype]
            composed.check(images, transforms, integers(*size), np.float32(7.5), atol=atol)


class TestCrops:
    INDICES = integers(0, 0, 0, 0)
    BOXES = np.random.default_rng(2).uniform(-0.2, 1.2, (4, 4)).astype("float32")

    @pytest.mark.fast_cells(1)
    @pytest.mark.parametrize("method", ["bilinear", "nearest"])
    def test_crops_and_the_gradient_of_images(self, method):
        forward = Composed(
            "CropAndResize",
            ["float32", "float32", "int32", "int32"],
            method=method,
            extrapolation_value=0.25,
        )
        gradient = Composed(
            "CropAndResizeGradImage",
            ["float32", "float32", "int32", "int32"],
            method=method,
            T=tf.float32,
        )
        for image, size in SIDES:
            gradients = floats(4, *size, image[3])
            forward.check(floats(*image), self.BOXES, self.INDICES, integers(*size))
            gradient.check(gradients, self.BOXES, self.INDICES, integers(*image))

    @pytest.mark.slow
    def test_the_gradient_of_boxes(self):
        dtypes = ["float32", "float32", "float32", "int32"]
        gradient = Composed("CropAndResizeGradBoxes", dtypes, method="bilinear")
        for image, size in SIDES:
            gradients = floats(4, *size, image[3])
            gradient.check(gradients, floats(*image), self.BOXES, self.INDICES, atol=1e-4)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("alpha", [0.3, 1.0, 4.5])
def test_gamma_samples_have_the_moments_of_their_distribution(alpha):
    key, counter = tf.constant([7], tf.uint64), tf.constant([3, 1], tf.uint64)
    dtypes = ["int32", "uint64", "uint64", "int32", "float32"]
    composed = Composed("StatelessRandomGammaV3", dtypes)
    inputs = (tf.constant([20000]), key, counter, tf.constant(1), tf.constant(alpha))
    ours, stock = composed.composition(*inputs), composed.stock(*inputs)
    for samples in (ours, stock):
        assert np.min(samples) > 0.0
        np.testing.assert_allclose(np.mean(samples), alpha, rtol=0.05)
        np.testing.assert_allclose(np.var(samples), alpha, rtol=0.1)


def transformed(images):
    transforms = tf.constant([[0.9, 0.1, 1.0, -0.1, 1.1, 0.0, 0.0, 0.0]])
    return tf.raw_ops.ImageProjectiveTransformV3(
        images=images,
        transforms=transforms,
        output_shape=[6, 5],
        fill_value=0.0,
        interpolation="BILINEAR",
    )


PROGRAMS = {
    "projective": transformed,
    "bicubic": lambda images: tf.image.resize(images, (5, 9), "bicubic"),
    "nearest": lambda images: tf.image.resize(images, (5, 9), "nearest"),
    "lanczos": lambda images: tf.image.resize(images, (5, 9), "lanczos5", antialias=True),
    "mitchell": lambda images: tf.image.resize(images, (5, 9), "mitchellcubic"),
    "crops": lambda images: tf.image.crop_and_resize(
        images, [[0.1, 0.2, 0.7, 0.9]] * 2, [1, 0], (4, 4)
    ),
    "in a loop": lambda images: tf.map_fn(
        lambda image: tf.image.resize(image, (5, 9), "bicubic"), images
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.slow
def test_programs_with_gradients_run_and_are_costed(name):
    def gradient(images):
        with tf.GradientTape() as tape:
            tape.watch(images)
            result = PROGRAMS[name](images)
            loss = tf.reduce_sum(result**2)
        return result, tape.gradient(loss, images)

    strategy = IPUStrategy(enable_keras_extensions=False)
    images = tf.constant(floats(2, 7, 6, 3))
    ours = strategy.run(tf.function(gradient), args=(images,))
    for value, stock in zip(ours, gradient(images), strict=True):
        np.testing.assert_allclose(value, stock, rtol=1e-5, atol=1e-5)
    (program,) = strategy.report().programs
    assert program.device is not None
