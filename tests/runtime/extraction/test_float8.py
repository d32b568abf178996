"""float8: values of the C600 alone, from casts in TensorFlow and Keras' quantised layers."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, config
from ipu_tf.compiler.compile import compile_program
from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.hlo import parse
from ipu_tf.machine.target import CHIPS
from ipu_tf.tile_program.errors import UnsupportedOpcodeError

X = np.linspace(-1, 1, 64).reshape(8, 8).astype("float32")
E4M3 = tf.dtypes.experimental.float8_e4m3fn
E5M2 = tf.dtypes.experimental.float8_e5m2


@pytest.fixture
def strategy_on():
    """Returns a function that gives a strategy on a chip."""

    def configure(chip):
        machine = IPUConfig()
        machine.simulator.chip = chip
        machine.ipu_model.tiles_per_ipu = 16
        machine.configure_ipu_system()
        return IPUStrategy()

    yield configure
    config.reset_ipu_configuration()


def quantised():
    keras.utils.set_random_seed(1)
    layer = keras.layers.Dense(4, name="narrow")
    layer.build(X.shape)
    layer.quantize("float8")
    return layer


@pytest.mark.parametrize("dtype", [E4M3, E5M2])
def test_casts_on_the_c600(strategy_on, dtype):
    def fn(x):
        return tf.cast(tf.cast(x, dtype), tf.float32) + 1.0

    strategy = strategy_on("c600")
    result = strategy.run(tf.function(fn), args=(tf.constant(X),))
    np.testing.assert_array_equal(result, fn(tf.constant(X)))
    (program,) = strategy.report().programs
    assert program.device.complete


def test_quantised_layers_on_the_c600(strategy_on):
    expected = quantised()(X)
    layer, strategy = quantised(), strategy_on("c600")
    result = strategy.run(tf.function(lambda x: layer(x)), args=(tf.constant(X),))
    np.testing.assert_allclose(result, expected, rtol=1e-6)
    (program,) = strategy.report().programs
    assert program.device.complete


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("chip", ["gc2", "gc200", "bow"])
def test_other_chips_refuse_it_and_name_the_layer(strategy_on, chip):
    layer, strategy = quantised(), strategy_on(chip)
    message = f"'narrow': it makes f8e4m3, which the {chip} does not have; use float16, or the c600"
    with pytest.raises(UnsupportedOpcodeError, match=message):
        strategy.run(tf.function(lambda x: layer(x)), args=(tf.constant(X),))


def product(dtype):
    """The program of a matmul of two matrices of a type, on a C600."""
    numbers = "lhs_contracting={1} rhs_contracting={0} lhs_batch={} rhs_batch={}"
    module = parse(
        f"""
        ENTRY main {{
          x = {dtype}[512,512] parameter(0)
          y = {dtype}[512,512] parameter(1)
          ROOT r = f16[512,512] dot(x, y), dot_dimension_numbers={{{numbers}}}
        }}
        """
    )
    program = compile_program(module, CompilerOptions(target=CHIPS["c600"]), {}, 0)
    (step,) = (step for step in program.steps if step.opcode == "dot")
    return step


def test_matmuls_of_float8_take_wider_passes():
    float8, float16 = product("f8e4m3"), product("f16")
    assert (float8.plan.grain, float16.plan.grain) == (32, 16)
    assert float8.cycles < float16.cycles
