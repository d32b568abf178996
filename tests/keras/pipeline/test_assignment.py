"""Getting, setting, resetting and printing the stages of every kind of model."""

import logging

import keras
import numpy as np
import pytest

import ipu_tf.keras as ipu
from ipu_tf.internals.keras_layers import keras_layer_path
from ipu_tf.keras import PipelineStage
from ipu_tf.keras.pipeline import stage_of_layers
from tests.keras import pipelined_models
from tests.keras.small_models import CLASSES, FEATURES


def names(prefix, count=3):
    return [keras.layers.Dense(4, name=f"{prefix}{number}") for number in range(count)]


@pytest.fixture
def sequential(strategy):
    with strategy.scope():
        return keras.Sequential([keras.Input((FEATURES,)), *names("s")], name="net")


@pytest.fixture
def functional(strategy):
    """Two branches of a common layer that meet again."""
    with strategy.scope():
        inputs = keras.Input((FEATURES,))
        first, left, right = (layer for layer in names("f"))
        x = first(inputs)
        x = keras.layers.Add(name="add")([left(x), right(x)])
        return keras.Model(inputs, x, name="net")


@pytest.fixture
def subclass(strategy):
    with strategy.scope():
        model = pipelined_models.DeepNet(name="net")
        model(np.zeros((2, FEATURES), "float32"))
        return model


@pytest.fixture
def nested(strategy):
    """A functional model with a Sequential in it, which is called twice."""
    with strategy.scope():
        inner = keras.Sequential([keras.Input((4,)), *names("i", 2)], name="inner")
        x = inputs = keras.Input((4,))
        x = inner(inner(x))
        return keras.Model(inputs, keras.layers.Dense(CLASSES, name="head")(x), name="net")


def assign(model, stages):
    assignment = model.get_pipeline_stage_assignment()
    for of_layer, stage in zip(assignment, stages, strict=True):
        of_layer.pipeline_stage = stage
    model.set_pipeline_stage_assignment(assignment)


@pytest.mark.parametrize("kind", ["sequential", "functional", "subclass"])
def test_layers_have_no_stage_at_first(request, kind):
    model = request.getfixturevalue(kind)
    assignment = model.get_pipeline_stage_assignment()
    assert len(assignment) == len(model.layers) - (kind == "functional")
    assert [of_layer.pipeline_stage for of_layer in assignment] == [None] * len(assignment)
    assert not any(of_layer.is_nested_model for of_layer in assignment)
    assert stage_of_layers(model) == {}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("sequential", ipu.SequentialLayerPipelineStageAssignment),
        ("functional", ipu.FunctionalLayerPipelineStageAssignment),
        ("subclass", ipu.ModelLayerPipelineStageAssignment),
    ],
)
def test_assignments_are_of_the_kind_of_their_model(request, kind, expected):
    assignment = request.getfixturevalue(kind).get_pipeline_stage_assignment()
    assert {type(of_layer) for of_layer in assignment} == {expected}


def test_sequential(sequential):
    sequential.set_pipeline_stage_assignment([0, 0, 1])
    assert stage_of_layers(sequential) == {"net/s0": 0, "net/s1": 0, "net/s2": 1}
    assign(sequential, [0, 1, 2])
    assert stage_of_layers(sequential) == {"net/s0": 0, "net/s1": 1, "net/s2": 2}


def test_functional(functional):
    assignment = functional.get_pipeline_stage_assignment()
    assert [of_layer.layer.name for of_layer in assignment] == ["f0", "f1", "f2", "add"]
    assert [layer.name for layer in assignment[3].inbound_layers] == ["f1", "f2"]
    assert assignment[1].inbound_layers.name == "f0"
    assign(functional, [0, 1, 2, 2])
    assert stage_of_layers(functional) == {"f0": 0, "f1": 1, "f2": 2, "add": 2}


def test_subclass(subclass):
    assign(subclass, [0, 0, 1, 1])
    assert list(stage_of_layers(subclass).values()) == [0, 0, 1, 1]


def test_shared_layers_have_an_assignment_for_each_call(nested):
    assignment = nested.get_pipeline_stage_assignment()
    assert [part.is_nested_model for part in assignment] == [True, True, False]
    assert {type(part) for part in assignment[:2]} == {
        ipu.FunctionalNestedModelPipelineStageAssignment
    }
    first, second = (part.node_index for part in assignment[:2])
    assert second == first + 1
    assert assignment[1].inbound_layers is assignment[0].nested_model


def test_nested_models_have_stages_of_their_own(nested):
    assignment = nested.get_pipeline_stage_assignment()
    for call, stage in zip(assignment[:2], (0, 1), strict=True):
        for part in call.pipeline_stage_assignments:
            part.pipeline_stage = stage
    assignment[2].pipeline_stage = 1
    nested.set_pipelining_options(4, device_mapping=[0, 0])
    nested.set_pipeline_stage_assignment(assignment)
    # Both calls use the same variables, so they are of one IPU, and of the first call's stage.
    assert stage_of_layers(nested) == {"inner/i0": 0, "inner/i1": 0, "head": 1}


def test_shared_variables_stay_on_one_ipu(nested):
    assignment = nested.get_pipeline_stage_assignment()
    for call, stage in zip(assignment[:2], (0, 1), strict=True):
        for part in call.pipeline_stage_assignments:
            part.pipeline_stage = stage
    assignment[2].pipeline_stage = 1
    nested.set_pipeline_stage_assignment(assignment)
    with pytest.raises(ValueError, match="variables of layer i0 are used by stages 0 and 1, which"):
        stage_of_layers(nested)


def test_a_stage_number_of_a_sequential_goes_for_a_whole_nested_model(strategy):
    with strategy.scope():
        inputs = keras.Input((FEATURES,))
        block = keras.Model(inputs, keras.layers.Dense(4, name="b")(inputs), name="block")
        inner = keras.Sequential([keras.Input((FEATURES,)), block, *names("i", 1)], name="inner")
        model = keras.Sequential([keras.Input((FEATURES,)), inner, *names("t", 1)], name="net")
    model.set_pipeline_stage_assignment([0, 1])
    assert stage_of_layers(model) == {"b": 0, "inner/i0": 0, "net/t0": 1}


def test_nested_models_in_scopes(strategy):
    with strategy.scope():
        with PipelineStage(0):
            own = keras.Sequential([keras.Input((4,)), *names("own", 1)], name="own")
        called = keras.Sequential([keras.Input((4,)), *names("called", 1)], name="called")
        x = inputs = keras.Input((4,))
        x = own(x)
        with PipelineStage(1):
            x = called(x)
        model = keras.Model(inputs, x, name="net")
    assert stage_of_layers(model) == {"own/own0": 0, "called/called0": 1}


def test_each_input_of_a_nested_model_has_its_own_source(strategy):
    def dense(name):
        return keras.layers.Dense(4, name=name)

    with strategy.scope():
        a, b = keras.Input((4,)), keras.Input((4,))
        both = keras.layers.Add(name="add")([dense("on_a")(a), dense("on_b")(b)])
        inner = keras.Model([a, b], both, name="inner")
        inputs = keras.Input((4,))
        early = dense("early")(inputs)
        model = keras.Model(inputs, inner([early, dense("late")(early)]), name="net")

    def stages(on_a):
        assignment = model.get_pipeline_stage_assignment()
        by_name = {"early": 0, "late": 1, "on_a": on_a, "on_b": 1, "add": 1}
        for part in [*assignment[:2], *assignment[2].pipeline_stage_assignments]:
            part.pipeline_stage = by_name[part.layer.name]
        return assignment

    model.set_pipeline_stage_assignment(stages(on_a=0))  # It does not wait for the other input.
    assert stage_of_layers(model) == {"early": 0, "late": 1, "on_a": 0, "on_b": 1, "add": 1}
    with pytest.raises(ValueError, match="Layer add in pipeline stage 1 has a dependency"):
        model.set_pipeline_stage_assignment(stages(on_a=2))


def test_paths_are_those_that_keras_names_ops_by(strategy):
    class Recording(keras.layers.Layer):
        def call(self, inputs):
            seen.add(keras_layer_path())
            return inputs

    seen = set()
    with strategy.scope():
        x = inputs = keras.Input((4,))
        x = keras.Sequential([Recording(name="a")], name="inner")(x)
        x = Recording(name="b")(x)
        model = keras.Model(inputs, x, name="net")
        outer = keras.Sequential([model, Recording(name="c")], name="outer")
    outer.set_pipeline_stage_assignment([0, 1])
    before = set(stage_of_layers(outer))
    seen.clear()
    outer(np.zeros((2, 4), "float32"))
    assert seen == before == set(stage_of_layers(outer))
    assert {path.rpartition("/")[2] for path in seen} == set("abc")


def test_inputs_by_name(strategy):
    with strategy.scope():
        inputs = {name: keras.Input((4,), name=name) for name in ("left", "right")}
        left, right = (keras.layers.Dense(4, name=f"on_{name}") for name in inputs)
        x = keras.layers.Add(name="add")([left(inputs["left"]), right(inputs["right"])])
        model = keras.Model(inputs, {"sum": x}, name="net")
    assign(model, [0, 1, 1])
    assert stage_of_layers(model) == {"on_left": 0, "on_right": 1, "add": 1}


def test_layers_of_one_path_are_in_one_stage(strategy):
    def block(name, shape):
        inputs = keras.Input(shape)
        return keras.Model(inputs, keras.layers.Dense(4, name="same")(inputs), name=name)

    with strategy.scope():
        inputs = keras.Input((FEATURES,))
        x = inputs
        for stage, nested in enumerate([block("a", (FEATURES,)), block("b", (4,))]):
            with PipelineStage(stage):
                x = nested(x)
        model = keras.Model(inputs, x)
    with pytest.raises(ValueError, match="two layers in stages 0 and 1 have the same path"):
        stage_of_layers(model)


def test_reset(functional):
    assign(functional, [0, 0, 1, 1])
    functional.reset_pipeline_stage_assignment()
    assert stage_of_layers(functional) == {}
    assignment = functional.get_pipeline_stage_assignment()
    assert [of_layer.pipeline_stage for of_layer in assignment] == [None] * 4


def test_reset_takes_the_stages_of_scopes_away(strategy):
    with strategy.scope():
        model = pipelined_models.functional(2)
    assert stage_of_layers(model)
    model.reset_pipeline_stage_assignment()
    assert stage_of_layers(model) == {}


def test_assignments_are_copies(sequential):
    sequential.get_pipeline_stage_assignment()[0].pipeline_stage = 0
    assert sequential.get_pipeline_stage_assignment()[0].pipeline_stage is None


@pytest.mark.parametrize(
    "change", [lambda model: model.pop(), lambda model: model.add(names("n", 1)[0])]
)
def test_a_changed_sequential_loses_its_stages(sequential, caplog, change):
    sequential.set_pipeline_stage_assignment([0, 0, 1])
    with caplog.at_level(logging.WARNING, "ipu_tf"):
        change(sequential)
    assert "pipeline stage assignment of model 'net' is dropped" in caplog.text
    assert stage_of_layers(sequential) == {}


def test_no_list(sequential):
    with pytest.raises(ValueError, match="needs to be a list. Received: tuple"):
        sequential.set_pipeline_stage_assignment((0, 0, 1))


@pytest.mark.parametrize("kind", ["sequential", "functional"])
def test_wrong_length(request, kind):
    model = request.getfixturevalue(kind)
    assignment = model.get_pipeline_stage_assignment()[:-1]
    expected = r"list \(\d\) does not match the number of layers in the graph \(\d\)"
    with pytest.raises(ValueError, match=expected):
        model.set_pipeline_stage_assignment(assignment)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("sequential", "SequentialLayerPipelineStageAssignment"),
        ("functional", "FunctionalLayerPipelineStageAssignment"),
        ("subclass", "ModelLayerPipelineStageAssignment"),
    ],
)
def test_wrong_type(request, kind, name):
    model = request.getfixturevalue(kind)
    count = len(model.get_pipeline_stage_assignment())
    with pytest.raises(ValueError, match=f"must be an instance of `{name}`. Received: 'x'"):
        model.set_pipeline_stage_assignment(["x"] * count)


def test_numbers_are_for_sequential_models(functional):
    with pytest.raises(ValueError, match="must be an instance of .* Received: 0 of type int"):
        functional.set_pipeline_stage_assignment([0, 0, 1, 1])


def test_a_nested_model_needs_its_own_assignment(nested):
    assignment = nested.get_pipeline_stage_assignment()
    assignment[0] = assignment[2]
    expected = "must be an instance of `FunctionalNestedModelPipelineStageAssignment`"
    with pytest.raises(ValueError, match=expected):
        nested.set_pipeline_stage_assignment(assignment)


@pytest.mark.parametrize("kind", ["sequential", "functional", "subclass"])
def test_wrong_order(request, kind):
    model = request.getfixturevalue(kind)
    assignment = model.get_pipeline_stage_assignment()
    for of_layer in assignment:
        of_layer.pipeline_stage = 0
    assignment[0], assignment[1] = assignment[1], assignment[0]
    with pytest.raises(ValueError, match="order of the assignments does not match the post-order"):
        model.set_pipeline_stage_assignment(assignment)


@pytest.mark.parametrize("kind", ["sequential", "functional", "subclass", "nested"])
def test_missing_stage(request, kind):
    model = request.getfixturevalue(kind)
    with pytest.raises(ValueError, match="has not been assigned a pipeline stage"):
        model.set_pipeline_stage_assignment(model.get_pipeline_stage_assignment())


@pytest.mark.parametrize("stage", [-1, 0.5, True])
def test_what_no_stage_is(sequential, stage):
    assignment = sequential.get_pipeline_stage_assignment()
    with pytest.raises(ValueError, match=f"integer of at least 0. Received: {stage!r}"):
        assignment[0].pipeline_stage = stage


def test_the_first_layer_of_a_sequential_is_in_stage_0(sequential):
    with pytest.raises(ValueError, match="first layer must be assigned to pipeline stage 0"):
        sequential.set_pipeline_stage_assignment([1, 1, 2])


@pytest.mark.parametrize("stages", [[0, 2, 2], [0, 1, 0]])
def test_the_stages_of_a_sequential_count_on(sequential, stages):
    with pytest.raises(ValueError, match=r"of the layer before it or in the next: \d or \d"):
        sequential.set_pipeline_stage_assignment(stages)


def test_data_does_not_flow_backwards(functional):
    expected = (
        "Layer add in pipeline stage 1 has a dependency from a pipeline stage which has not yet "
        "been executed: it takes the output of layer f2 in pipeline stage 2"
    )
    with pytest.raises(ValueError, match=expected):
        assign(functional, [0, 1, 2, 1])


def test_every_stage_has_a_layer(functional):
    assign(functional, [0, 0, 2, 2])
    expected = "All stages in a pipeline must have at lease one layer .* none in stage 1 of 3"
    with pytest.raises(RuntimeError, match=expected):
        stage_of_layers(functional)


def test_an_unbuilt_subclass(strategy):
    with strategy.scope():
        model = pipelined_models.DeepNet()
    expected = r"which has not been built yet. Please call `model.build\(\)` first"
    with pytest.raises(RuntimeError, match=expected):
        model.get_pipeline_stage_assignment()
    with pytest.raises(RuntimeError, match=expected):
        model.set_pipeline_stage_assignment([])


class Switching(keras.Model):
    """Runs other layers after a switch."""

    def __init__(self):
        super().__init__()
        self.a, self.b = names("x", 2)
        self.swapped = False

    def call(self, inputs):
        first, second = (self.b, self.a) if self.swapped else (self.a, self.b)
        return second(first(inputs))


class Lookup(keras.Model):
    """Takes whole numbers alone."""

    def __init__(self):
        super().__init__(name="lookup")
        self.table = ipu.layers.Embedding(10, 4)
        self.head = keras.layers.Dense(CLASSES)

    def call(self, inputs):
        return self.head(self.table(inputs))


# Keras' words for every subclass with a `call` alone.
UNBUILT = pytest.mark.filterwarnings(r"ignore:`build\(\)` was called on layer 'lookup")


@UNBUILT
def test_build_tells_the_types_of_inputs(strategy):
    with strategy.scope():
        model = Lookup()
        model.build(keras.Input((5,), dtype="int32", batch_size=2))
        assign(model, [0, 1])
    assert model.get_build_config() == {"input_shape": (2, 5)}
    assert sorted(stage_of_layers(model).values()) == [0, 1]


@UNBUILT
def test_plain_shapes_stand_for_floating_point_inputs(strategy):
    with strategy.scope():
        model = Lookup()
        model.build((2, 5))
        with pytest.raises(ValueError, match=r"not floating point numbers.*\(2, 5\), 'float32'"):
            model.get_pipeline_stage_assignment()


def test_stages_of_other_calls_are_stale(strategy):
    with strategy.scope():
        model = Switching()
        model(keras.Input((4,)))
        assign(model, [0, 1])
        model.swapped = True
        model(keras.Input((4,), batch_size=2))
    with pytest.raises(RuntimeError, match="assignments of model '.*' are no longer valid"):
        stage_of_layers(model)


class WithTensorFlow(keras.Model):
    """Calls a TensorFlow function, which no symbolic tensor goes through."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(4)

    def call(self, inputs):
        import tensorflow as tf

        return tf.nn.relu(self.dense(inputs))


def test_layers_behind_tensorflow_functions_cannot_be_seen(strategy):
    with strategy.scope():
        model = WithTensorFlow()
        model(np.zeros((2, 4), "float32"))
    with pytest.raises(ValueError, match="does not run on symbolic inputs. In `call`, use"):
        model.get_pipeline_stage_assignment()
    assert stage_of_layers(model) == {}


def test_integer_inputs_are_known_from_a_symbolic_call(strategy):
    class Lookup(keras.Model):
        def __init__(self):
            super().__init__()
            self.table, self.head = keras.layers.Embedding(5, 4), keras.layers.Dense(3)

        def call(self, inputs):
            assert inputs.dtype == "int32"
            return self.head(self.table(inputs))

    with strategy.scope():
        model = Lookup()
        model(keras.Input((7,), dtype="int32"))
        assign(model, [0, 1])
    assert list(stage_of_layers(model).values()) == [0, 1]


def test_stock_models_have_no_stages():
    assert stage_of_layers(pipelined_models.sequential()) == {}


def test_summary_of_nested_models(nested):
    lines = []
    nested.print_pipeline_stage_assignment_summary(line_length=60, print_fn=lines.append)
    assert lines[0] == 'Model: "net"'
    assert lines.count('Nested Model: "inner"') == 2
    assert max(map(len, lines)) == 60
    table = [line.split() for line in lines]
    assert ["head", "(Dense)", "(0)", "inner", "None"] in table
    assert ["i0", "(Dense)", "None"] in table


@pytest.mark.parametrize("length", [32, 40, 60, 80, 120])
def test_a_narrow_summary_goes_on_in_the_next_line(strategy, length):
    long = "a_layer_with_a_name_that_is_longer_than_most"
    with strategy.scope():
        inputs = keras.Input((4,), name="features")
        layers = [keras.layers.Dense(4, name=name) for name in (long, "short")]
        both = keras.layers.Add(name="add")([layer(inputs) for layer in layers])
        model = keras.Model(inputs, both, name="net")
    assign(model, [0, 0, 10])
    lines = []
    model.print_pipeline_stage_assignment_summary(line_length=length, print_fn=lines.append)
    assert max(map(len, lines)) == length
    header = lines[1 + lines.index("_" * length)]
    inputs_begin, stage_begins = header.index("Input"), header.index("Pipeline Stage")
    assert stage_begins == length - len("Pipeline Stage")
    rows = lines[lines.index("=" * length) + 1 : -1]

    def column(begin, end):
        """The text of a column, without the spaces between words and lines."""
        return "".join(row[begin:end] for row in rows).replace(" ", "")

    assert column(0, inputs_begin) == f"{long}(Dense)(0)short(Dense)(0)add(Add)(0)"
    assert column(inputs_begin, stage_begins) == f"featuresfeatures{long},short"
    assert column(stage_begins, length) == "0010"
    # A column ends with a space, however long its words are.
    assert {row[end - 1 : end] for row in rows for end in (inputs_begin, stage_begins)} <= {" ", ""}


@pytest.mark.parametrize("length", [31, 0, -1, 60.0, True])
def test_a_summary_has_room_for_its_columns(sequential, length):
    with pytest.raises(ValueError, match=rf"integer of at least 32, .* Received: {length!r}"):
        sequential.print_pipeline_stage_assignment_summary(line_length=length)


def test_summary_is_printed(sequential, capsys):
    sequential.set_pipeline_stage_assignment([0, 1, 1])
    sequential.print_pipeline_stage_assignment_summary()
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[-1] for line in printed if "(Dense)" in line] == ["0", "1", "1"]


def test_assignments_print_themselves(nested):
    assignment = nested.get_pipeline_stage_assignment()
    assert "Nested Model: inner" in str(assignment[0])
    assert "is assigned to pipeline stage: None" in str(assignment[0])
    assert str(assignment[2]).startswith("Layer: head (node index 0) is assigned")
    assert repr(assignment[2]) == (
        "FunctionalLayerPipelineStageAssignment('head', pipeline_stage=None)"
    )
