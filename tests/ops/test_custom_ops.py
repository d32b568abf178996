"""Functions of shared libraries as operations, against the same maths in TensorFlow."""

import shutil
import subprocess

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.ops.custom_ops import codelet_expression_op, cpu_user_operation

SOURCE = """
#include <cstdint>
#include <string>
#include <vector>
using In = const std::vector<const void*>&;
using Counts = const std::vector<std::uint32_t>&;
using Out = const std::vector<void*>&;
using Text = const std::string&;

static const float* in(In data, int index) { return static_cast<const float*>(data[index]); }
static float* out(Out data, int index) { return static_cast<float*>(data[index]); }

// x * y + the number that the attributes spell.
extern "C" void Product(In data, Counts counts, Out outputs, Text attributes, Text name) {
  for (std::uint32_t i = 0; i < counts[0]; ++i)
    out(outputs, 0)[i] = in(data, 0)[i] * in(data, 1)[i] + std::stof(attributes);
  if (name != "scaled" || data.size() != 2 || outputs.size() != 1) out(outputs, 0)[0] = -1e9f;
}

// Its gradients of both inputs: data are the gradient, the output and the inputs.
extern "C" void Product_grad(In data, Counts counts, Out outputs, Text attributes, Text) {
  for (std::size_t target = 0; target < outputs.size(); ++target)
    for (std::uint32_t i = 0; i < counts[0]; ++i)
      out(outputs, target)[i] = in(data, 0)[i] * in(data, 3 - target)[i] * std::stof(attributes);
}

extern "C" void Lonely(In data, Counts counts, Out outputs, Text, Text) {
  for (std::uint32_t i = 0; i < counts[0]; ++i) out(outputs, 0)[i] = in(data, 0)[i];
}
"""
X, Y = np.random.default_rng(3).normal(size=(2, 2, 3)).astype("float32")
OUTS = {"output_types": [tf.float32], "output_shapes": [tf.TensorShape([2, 3])]}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    folder = tmp_path_factory.mktemp("library")
    (folder / "host.cc").write_text(SOURCE)
    subprocess.run(
        ["g++", "-shared", "-fPIC", "-o", "libhost.so", "host.cc"], cwd=folder, check=True
    )
    return str(folder / "libhost.so")


def test_a_program_calls_the_function_and_its_gradient(library, strategy):
    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            tape.watch((x, y))
            (product,) = cpu_user_operation(
                [x, y],
                library,
                outs=OUTS,
                name="scaled",
                op_name="Product",
                attributes="0.5",
                gradient_attributes="1.0",
            )
            loss = tf.reduce_sum(product**2)
        return product, *tape.gradient(loss, (x, y))

    product, of_x, of_y = strategy.run(step, args=(tf.constant(X), tf.constant(Y)))
    wanted = X * Y + 0.5
    np.testing.assert_allclose(product, wanted, rtol=1e-6)
    np.testing.assert_allclose(of_x, 2 * wanted * Y, rtol=1e-6)
    np.testing.assert_allclose(of_y, 2 * wanted * X, rtol=1e-6)
    assert product.shape == (2, 3)


def test_gradients_of_some_inputs_and_one_call_an_input(library):
    x, y = tf.constant(X), tf.constant(Y)
    with tf.GradientTape() as tape:
        tape.watch((x, y))
        (product,) = cpu_user_operation(
            [x, y], library, OUTS, "scaled", "Product", True, [0], "0", "3"
        )
    of_x, of_y = tape.gradient(product, (x, y))
    np.testing.assert_allclose(of_x, 3 * Y, rtol=1e-6)
    assert of_y is None


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_an_expression_of_elements(dtype, strategy):
    x, y = tf.constant(X, dtype), tf.constant(Y[:1], dtype)

    @tf.function
    def step(x, y):
        return codelet_expression_op(lambda a, b: abs(a * a - b) + 1, x, y)

    found = strategy.run(step, args=(x, y))
    assert found.dtype == dtype
    expected = np.abs(x.numpy() ** 2 - y.numpy()) + 1
    np.testing.assert_allclose(found, expected, rtol={"float32": 1e-6, "float16": 2e-3}[dtype])
    with tf.GradientTape() as tape:
        tape.watch(x)
        result = codelet_expression_op(lambda a: a * a, x)
    with pytest.raises(LookupError, match="codelet_expression_op has no gradient. Write the"):
        tape.gradient(result, x)
    with pytest.raises(ValueError, match="pass the tensors of the expression"):
        codelet_expression_op(lambda: 1)


def test_libraries_and_functions_that_do_not_exist(library):
    with pytest.raises(ValueError, match=r"(?s)cannot load the library.*g\+\+ -shared -fPIC"):
        cpu_user_operation([X], "no-such-library.so", outs=OUTS)
    with pytest.raises(ValueError, match='no function `Callback`. Declare it as extern "C"'):
        cpu_user_operation([X], library, outs=OUTS)
    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        (copy,) = cpu_user_operation([x], library, outs=OUTS, op_name="Lonely")
    np.testing.assert_array_equal(copy, X)
    with pytest.raises(ValueError, match="has no function `Lonely_grad`"):
        tape.gradient(copy, x)


def test_arguments_out_of_their_range():
    with pytest.raises(ValueError, match="`attributes` must be a str. Received: 7"):
        cpu_user_operation([X], "x.so", attributes=7)
    with pytest.raises(ValueError, match=r"must be numbers of the 1 inputs. Received: \[1\]"):
        cpu_user_operation([X], "x.so", inputs_with_gradients=[1])
    with pytest.raises(ValueError, match="must have lists of equal length, `output_types`"):
        cpu_user_operation([X], "x.so", outs={"output_types": [tf.float32], "output_shapes": []})
    with pytest.raises(ValueError, match=r"must have static shapes. Received: \(None,\)"):
        cpu_user_operation(
            [X], "x.so", outs={"output_types": [tf.float32], "output_shapes": [(None,)]}
        )
