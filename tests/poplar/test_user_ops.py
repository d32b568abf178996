"""Custom ops of TensorFlow written for Poplar, against the same computation in TensorFlow."""

import dataclasses
import os
import subprocess

import keras
import numpy as np
import pytest
import tensorflow as tf

import ipu_tf
from ipu_tf.machine.target import CHIPS
from ipu_tf.ops import replication_ops
from ipu_tf.ops.custom_ops import precompiled_user_op
from ipu_tf.poplar import user_ops
from ipu_tf.poplar.toolchain import PROGRAM_FLAGS, find_compiler
from ipu_tf.poplar.user_op_bridge import TensorType, UserOpCall, UserOpShapes
from ipu_tf.runtime.extraction.uncompilable import UncompilableProgram
from tests.poplar.conftest import PROGRAMS
from tests.runtime.replicas.programs import of_all

SOURCE = PROGRAMS / "user_ops.cpp"
CODELETS = PROGRAMS / "user_op_codelets.cpp"
TILES = 8
X, Y, Z = np.random.default_rng(3).normal(size=(3, 40, 5)).astype("float32")
OUTS = {"output_types": [tf.float32], "output_shapes": [X.shape]}


@pytest.fixture(scope="module")
def library(installed, tmp_path_factory):
    """The library as a Makefile builds it: by names of libraries, found through the environment."""
    folder = tmp_path_factory.mktemp("user_ops")
    environment = os.environ | installed.environment
    environment["PATH"] = f"{installed.environment['PATH']}:{os.environ['PATH']}"
    words = [str(SOURCE), "-shared", "-fpic", "-O1", "-o", "libop.so"]
    words += ["-lpoplar", "-lpopops", "-lpoputil"]
    subprocess.run([find_compiler().path, *words], cwd=folder, env=environment, check=True)
    return str(folder / "libop.so")


@pytest.fixture
def strategy():
    configure()
    return ipu_tf.IPUStrategy()


def configure(ipus=1, **options):
    config = ipu_tf.IPUConfig()
    for name, value in options.items():
        setattr(config.simulator, name, value)
    config.auto_select_ipus = ipus
    config.ipu_model.tiles_per_ipu = TILES
    config.configure_ipu_system()


def product(x, y, library, **options):
    (result,) = precompiled_user_op([x, y], library, outs=OUTS, **options)
    return result


def steps_of(strategy):
    (program,) = strategy.report().programs
    return [step for step in program.device.steps if step.opcode == "custom-call"]


def test_a_program_runs_an_op_and_its_gradient(library, strategy):
    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            tape.watch((x, y))
            found = product(x, y, library, name="times")
            loss = tf.reduce_sum(found**2)
        return found, *tape.gradient(loss, (x, y))

    found, of_x, of_y = strategy.run(step, args=(tf.constant(X), tf.constant(Y)))
    np.testing.assert_array_equal(found, X * Y)
    np.testing.assert_allclose(of_x, 2 * X * Y * Y, rtol=1e-6)
    np.testing.assert_allclose(of_y, 2 * X * Y * X, rtol=1e-6)
    forward, backward = steps_of(strategy)
    assert [one.name for one in forward.supersteps] == ["times/product/Mul: compute"]
    assert forward.cycles > 0
    sets = {"times/of x/Mul: compute", "times/of y/Mul: compute"}
    assert {one.name for one in backward.supersteps} >= sets


def test_codelets_attributes_and_a_note_on_estimates(library, strategy):
    @tf.function
    def step(x):
        (found,) = precompiled_user_op(
            [x], library, str(CODELETS), OUTS, "squared", "Squares", attributes="0.5"
        )
        return found

    np.testing.assert_allclose(strategy.run(step, args=(tf.constant(X),)), 0.5 * X * X, rtol=1e-6)
    (squares,) = steps_of(strategy)
    # At least 128 bytes a tile, so 200 elements lie on 6 of them, at most 34 on one; a worker takes
    # every sixth cycle.
    share = 34
    assert squares.supersteps[-1].compute_cycles == 6 * (10 + 2 * share)


def test_gradients_one_by_one_of_some_inputs(library):
    tensors = [tf.constant(each) for each in (X, Y, Z)]
    options = {"op_name": "Sum", "separate_gradients": True, "gradient_attributes": "1"}
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        (found,) = precompiled_user_op(
            tensors, library, outs=OUTS, inputs_with_gradients=[0, 2], **options
        )
    np.testing.assert_allclose(found, X + Y + Z, rtol=1e-5)
    of_x, of_y, of_z = tape.gradient(found, tensors)
    np.testing.assert_array_equal(of_x, np.ones_like(X))
    np.testing.assert_array_equal(of_z, np.full_like(X, 3))
    assert of_y is None


def test_an_op_in_place_leaves_the_values_of_others(library):
    x, y = tf.Variable(X), tf.constant(Y)
    with tf.GradientTape() as tape:
        tape.watch(y)
        total = product(x, y, library, op_name="AddInPlace", attributes="on tile 1")
    np.testing.assert_array_equal(total, X + Y)
    np.testing.assert_array_equal(x, X)
    of_x, of_y = tape.gradient(total, (x, y))
    np.testing.assert_array_equal(of_x, np.ones_like(X))
    assert of_y is None


def test_codelets_of_popops_are_there(library):
    np.testing.assert_array_equal(product(X, Y, library, op_name="Twice"), 2 * X)


def test_loops_and_compiled_functions(library, strategy):
    @tf.function(jit_compile=True)
    def jitted(x, y):
        return product(x, y, library)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            tape.watch(x)
            power = x
            for _ in tf.range(3):
                power = product(power, y, library)
        return power, tape.gradient(power, x), jitted(x, y)

    power, gradient, once = strategy.run(step, args=(tf.constant(X), tf.constant(Y)))
    np.testing.assert_allclose(power, X * Y**3, rtol=1e-5)
    np.testing.assert_allclose(gradient, Y**3, rtol=1e-5)
    np.testing.assert_array_equal(once, X * Y)
    np.testing.assert_array_equal(jitted(tf.constant(X), tf.constant(Y)), X * Y)


class Times(keras.layers.Layer):
    """Multiplies by a weight, by a custom op."""

    def __init__(self, library, **options):
        super().__init__(**options)
        self.library = library

    def build(self, shape):
        self.factor = self.add_weight(shape=shape[1:], initializer="ones", name="factor")

    def call(self, inputs):
        factor = tf.broadcast_to(self.factor, tf.shape(inputs))
        factor = tf.ensure_shape(factor, inputs.shape)
        outs = {"output_types": [inputs.dtype], "output_shapes": [inputs.shape]}
        return precompiled_user_op([inputs, factor], self.library, outs=outs)[0]

    def get_config(self):
        return super().get_config() | {"library": self.library}


class StockTimes(Times):
    def call(self, inputs):
        return inputs * self.factor


def model_of(layer, library):
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input([5]),
            keras.layers.Dense(4),
            layer(library, name="times"),
            keras.layers.Dense(1),
        ]
    )
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy")
def test_a_keras_layer_trains_and_saves(library, strategy, tmp_path):
    with strategy.scope():
        model = model_of(Times, library)
        model.fit(X, Y[:, :1], batch_size=10, epochs=2, verbose=0, shuffle=False)
        training = strategy.report().programs[0].device
        model.save(tmp_path / "model.keras")
        copy = keras.models.load_model(tmp_path / "model.keras", custom_objects={"Times": Times})
        predicted = copy.predict(X, batch_size=10, verbose=0)
    layers = {step.layer for step in training.steps if step.opcode == "custom-call"}
    assert layers == {f"{model.name}/times"}
    stock = model_of(StockTimes, library)
    stock.fit(X, Y[:, :1], batch_size=10, epochs=2, verbose=0, shuffle=False)
    for found, wanted in zip(model.get_weights(), stock.get_weights(), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(predicted, stock.predict(X, verbose=0), rtol=1e-4, atol=1e-6)


def test_an_allocator_may_make_unsigned_indices(library, strategy):
    outs = {"output_types": [tf.int32], "output_shapes": [[4]]}

    @tf.function
    def program(x):
        return precompiled_user_op([x], library, outs=outs, op_name="Indexed")[0]

    indices = tf.constant([3, 0, 2**31 - 1, -1])
    np.testing.assert_array_equal(strategy.run(program, args=(indices,)), indices)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("Missing", r"has no function `Missing`. Write it, and declare it as extern \"C\""),
        ("Mangled", r"the function `Mangled\(poplar.*cannot be found by its name. Declare it as"),
        ("Nothing", r"`Nothing` must add 1 tensors to its outputs. Received: 0"),
        ("NoTensor", r"output 0 of `NoTensor` is no tensor"),
        ("Refuses", r"'UserOp' \(Refuses\): it takes matrices"),
    ],
)
def test_ops_that_cannot_be_built(library, function, message):
    with pytest.raises(ValueError, match=message):
        product(X, Y, library, op_name=function)


def test_tensors_that_an_op_does_not_take(library, strategy):
    outs = {"output_types": [tf.float16], "output_shapes": [X.shape]}
    with pytest.raises(ValueError, match=r"must be half\{40,5\}. Received: float\{40,5\}"):
        precompiled_user_op([X, Y], library, outs=outs)
    with pytest.raises(ValueError, match=r"no tensors of type float64. Cast them to 32 bits"):
        precompiled_user_op([np.zeros(3)], library, outs=outs)

    @tf.function
    def unknown(x):
        outs = {"output_types": [tf.float32], "output_shapes": [[None, 5]]}
        return precompiled_user_op([x, x], library, outs=outs, name="open")

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"'open' was traced with inputs or"):
        unknown(X)
    refused = r"(?s)the custom op 'open'.*has inputs or outputs of unknown shape. Shapes are static"
    with pytest.raises(UncompilableProgram, match=refused):
        strategy.run(unknown, args=(tf.constant(X),))


def test_a_library_that_is_missing():
    with pytest.raises(ValueError, match=r"`library_path` does not exist. Received: library_path"):
        product(X, Y, "missing.so")


def test_errors_of_runs_and_gradients(library):
    x = tf.constant(X)
    with pytest.raises(tf.errors.InternalError, match=r"'stops' failed: it had to stop"):
        product(x, x, library, op_name="Aborts", name="stops")
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            found = product(x, x, library)
            bare = product(x, x, library, op_name="Squares", gp_path=str(CODELETS), attributes="1")
        first = tape.gradient(found, x)
        with pytest.raises(ValueError, match=r"has no function `Squares_grad`"):
            tape.gradient(bare, x)
    with pytest.raises(LookupError, match=r"'UserOp' \(Build_grad\) is a gradient, and has none"):
        outer.gradient(first, x)


@pytest.fixture
def isolated():
    configure(isolate_custom_ops=True)
    yield
    configure()


def test_an_isolated_op_computes_the_same(library, isolated):
    x, y = tf.constant(X), tf.constant(Y)
    with tf.GradientTape() as tape:
        tape.watch((x, y))
        found = product(x, y, library)
    np.testing.assert_array_equal(found, X * Y)
    np.testing.assert_array_equal(tape.gradient(found, x), Y)
    with pytest.raises(ValueError, match=r"'UserOp' \(Refuses\): it takes matrices"):
        product(x, y, library, op_name="Refuses")
    with pytest.raises(tf.errors.InternalError, match=r"'stops' failed: it had to stop"):
        product(x, x, library, op_name="Aborts", name="stops")


def test_a_crash_of_an_isolated_op_is_an_error(library, isolated):
    for _ in range(2):  # A new process takes the place of the one that crashed.
        with pytest.raises(ValueError, match=r"'bad' \(Crashes\): its process crashed \(Segm"):
            product(X, Y, library, op_name="Crashes", name="bad")
    options = {"op_name": "Faults", "name": "faulty", "gp_path": str(CODELETS)}
    with pytest.raises(tf.errors.InternalError, match=r"'faulty' failed: its process crashed \(S"):
        product(X, Y, library, **options)


def test_a_graph_of_another_process_runs_no_code():
    from ipu_tf.ops.kernels import library as tile_ops

    with pytest.raises(tf.errors.NotFoundError, match=r"'old' was made in another process"):
        tile_ops.load().ipu_user_op(
            inputs=[X],
            Tout=[tf.float32],
            output_shapes=[X.shape],
            call="a",
            program="b",
            label="old",
        )


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", r"has no `custom_op_api_level`. Write extern"),
        ("int custom_op_api_level = 6;", r"must be from 1 to 5.*Received: 6"),
        (
            "int custom_op_api_level = 5; void missing(); void f() { missing(); }",
            "cannot be loaded",
        ),
    ],
)
def test_libraries_of_something_else(source, message, tmp_path):
    (tmp_path / "op.cc").write_text(f'extern "C" {{ {source} }}')
    words = ["-shared", "-fPIC", "-o", "libop.so", "op.cc"]
    subprocess.run([find_compiler().path, *words], cwd=tmp_path, check=True)
    with pytest.raises(ValueError, match=f"(?s){message}"):
        product(X, Y, str(tmp_path / "libop.so"))


@pytest.mark.usefixtures("installed")
def test_a_source_is_compiled_and_its_functions_are_compared(tmp_path):
    np.testing.assert_array_equal(product(X, Y, str(SOURCE)), X * Y)
    text = SOURCE.read_text().replace("bool& is_stateless, bool&,", "bool& is_stateless,")
    (tmp_path / "op.cpp").write_text(text)
    with pytest.raises(ValueError, match=r"(?s)not those of level 5.*conflicting declaration of"):
        product(X, Y, str(tmp_path / "op.cpp"))


@pytest.mark.parametrize("level", [1, 2, 3, 4, 5])
def test_every_level_of_the_api(installed, tmp_path, level):
    words = [str(PROGRAMS / "user_op_levels.cpp"), f"-DLEVEL={level}", "-shared", "-fPIC"]
    words += [*PROGRAM_FLAGS, *installed.compile_flags, *installed.link_flags]
    find_compiler().run([*words, "-o", str(tmp_path / "libop.so")], "the op")
    attributes = "attributes" if level > 1 else ""
    call = UserOpCall(
        library=str(tmp_path / "libop.so"),
        codelets="",
        function="Build",
        label="label",
        attributes=attributes,
    )
    gradient = dataclasses.replace(call, function="Build_grad", is_gradient=True, gradient_of=1)
    matrix = TensorType(dtype="float16", shape=(3, 2))
    target = dataclasses.replace(CHIPS["gc2"], tiles=TILES)
    assert user_ops.is_stateless(call, 2)
    forward = UserOpShapes(call=call, inputs=(matrix,) * 2, outputs=(matrix,), target=target)
    assert user_ops.build(forward).has_output == (True,)
    backward = dataclasses.replace(forward, call=gradient, inputs=(matrix,) * 4, forward_outputs=1)
    assert user_ops.build(backward).has_output == (True,)


def test_estimates_and_compiled_graphs_of_tensorflow_1(library):
    report = ipu_tf.estimate(lambda: model_of(Times, library), batch_size=10)
    layers = {step.layer.rpartition("/")[2] for step in report.programs[0].device.steps}
    assert "times" in layers

    def program(x, y):
        return [product(x, y, library)]

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x, y = (tf.compat.v1.placeholder(tf.float32, X.shape) for _ in range(2))
        with ipu_tf.scopes.ipu_scope("/device:IPU:0"):
            (found,) = ipu_tf.ipu_compiler.compile(program, [x, y])
        np.testing.assert_array_equal(session.run(found, {x: X, y: Y}), X * Y)


def test_replicas_run_an_op_each(library):
    configure(2)
    strategy = ipu_tf.IPUStrategy()

    @tf.function
    def step():
        index = replication_ops.replication_index()
        x = tf.constant(np.stack([X, Z]))[index]
        with tf.GradientTape() as tape:
            tape.watch(x)
            found = product(x, tf.constant(Y), library)
        return of_all(found, 2), of_all(tape.gradient(found, x), 2)

    found, gradient = strategy.run(step)
    np.testing.assert_array_equal(found, [X * Y, Z * Y])
    np.testing.assert_array_equal(gradient, [Y, Y])


def test_a_stage_of_a_pipeline_has_the_op_of_its_layer(library):
    configure(2)
    strategy = ipu_tf.IPUStrategy()
    with strategy.scope():
        keras.utils.set_random_seed(1)
        inputs = keras.Input([5], batch_size=10)
        with ipu_tf.keras.PipelineStage(0):
            hidden = keras.layers.Dense(4)(inputs)
        with ipu_tf.keras.PipelineStage(1):
            hidden = Times(library, name="times")(hidden)
            outputs = keras.layers.Dense(1)(hidden)
        model = keras.Model(inputs, outputs)
        model.set_pipelining_options(gradient_accumulation_steps_per_replica=4)
        model.compile(keras.optimizers.SGD(0.1), "mse", steps_per_execution=4)
        model.fit(X, Y[:, :1], batch_size=10, epochs=2, verbose=0, shuffle=False)
        device = strategy.report().programs[0].device
    found = {
        stage.index
        for stage in device.stages
        for step in stage.program.steps
        if step.opcode == "custom-call"
    }
    assert found
    assert all(device.stages[index].ipu == 1 for index in found)
