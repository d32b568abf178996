"""A model holds its options in one frozen state; its classes do not share private attributes."""

import ast
import dataclasses
import inspect
import textwrap

import keras
import pytest

from ipu_tf.keras.keras3.models import Functional, Model, Sequential
from ipu_tf.keras.options import GradientAccumulationOptions, ReplicatedMetricReductionMethod
from ipu_tf.keras.training_state import NO_STAGES, TrainingState
from tests.keras.small_models import compile_model, functional, sequential

SETTERS = {
    "accumulation": lambda model: model.set_gradient_accumulation_options(4),
    "pipelining": lambda model: model.set_pipelining_options(8),
    "replication": lambda model: model.set_replication_options("sum"),
    "infeed": lambda model: model.set_infeed_queue_options(prefetch_depth=7),
    "outfeed": lambda model: model.set_outfeed_queue_options(buffer_depth=5),
    "asynchronous_callbacks": lambda model: model.set_asynchronous_callbacks(True),
    "recomputation": lambda model: model.set_recomputation_options([model.layers[0].name]),
    "assigned_stages": lambda model: model.reset_pipeline_stage_assignment(),
}


def classes_of_models():
    """The classes of this package that a model inherits."""
    found = {cls for model in (Functional, Sequential) for cls in model.__mro__}
    return sorted((cls for cls in found if cls.__module__.startswith("ipu_tf")), key=str)


def private_attributes(cls):
    """The private attributes of `self` that a class uses, and those that it defines itself."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    attributes = [
        one
        for one in ast.walk(node)
        if isinstance(one, ast.Attribute)
        and ast.unparse(one.value) in ("self", "cls")
        and one.attr.startswith("_")
        and not one.attr.startswith("__")
    ]
    stored = {one.attr for one in attributes if isinstance(one.ctx, ast.Store)}
    return {one.attr for one in attributes}, stored | {name for name in vars(cls) if name[0] == "_"}


@pytest.mark.parametrize("option", [field.name for field in dataclasses.fields(TrainingState)])
def test_a_setter_replaces_the_state_and_drops_the_functions(strategy, option):
    with strategy.scope():
        model = compile_model(sequential())
    model.make_train_function()
    before = model.ipu_training_state
    SETTERS[option](model)
    after = model.ipu_training_state
    assert before == TrainingState()
    changed = {
        field.name
        for field in dataclasses.fields(after)
        if getattr(after, field.name) != getattr(before, field.name)
    }
    assert changed == {option}
    assert model.train_function is None


def test_the_state_is_frozen(strategy):
    with strategy.scope():
        state = compile_model(sequential()).ipu_training_state
    with pytest.raises(dataclasses.FrozenInstanceError):
        state.asynchronous_callbacks = True


def test_models_do_not_share_a_state(strategy):
    with strategy.scope():
        first, second = compile_model(sequential()), compile_model(sequential())
    first.set_replication_options("mean")
    of_first = first.ipu_training_state.replication.metric_reduction
    assert of_first is ReplicatedMetricReductionMethod.MEAN
    assert second.ipu_training_state == TrainingState()


def test_without_a_pipeline_the_accumulation_of_the_state_applies():
    options = GradientAccumulationOptions(steps_per_replica=3)
    state = TrainingState(accumulation=options, assigned_stages=NO_STAGES)
    assert state.accumulation_in(None) is options


def test_removed_stages_override_those_of_scopes(strategy):
    with strategy.scope():
        model = functional()
    state = TrainingState(assigned_stages=NO_STAGES)
    assert not state.may_pipeline(model)


def test_a_model_inherits_the_state_its_setters_and_the_hooks_of_keras_alone():
    names = {cls.__name__ for cls in classes_of_models()} - {"Functional", "Sequential", "Model"}
    assert names == {
        "KerasIdentity",
        "TrainingHooks",
        "KerasHooks",
        "IPUExtensions",
        "StatefulModel",
        "VendorAttributes",
    }
    assert issubclass(Model, keras.Model)


def test_classes_of_models_do_not_use_private_attributes_of_each_other():
    attributes = {cls: private_attributes(cls) for cls in classes_of_models()}
    for cls, (used, own) in attributes.items():
        others = [defined for other, (_, defined) in attributes.items() if other is not cls]
        assert used & set().union(*others) <= own, f"{cls.__name__} uses attributes of others"


def test_options_have_the_names_of_the_vendors_private_attributes(strategy):
    with strategy.scope():
        model = compile_model(sequential())
        assert not model._is_pipelined()
        assert model._replicated_metric_reduction_method is ReplicatedMetricReductionMethod.MEAN
        model.set_replication_options()
        assert model._replicated_metric_reduction_method is ReplicatedMetricReductionMethod.NONE
        model.set_gradient_accumulation_options(4, "mean")
        model.set_pipelining_options(8, [0, 0], True)
        model.set_replication_options("sum")
        model.set_infeed_queue_options(prefetch_depth=7)
        model.set_asynchronous_callbacks(True)
        model.set_pipeline_stage_assignment([0] * len(model.layers))
    assert model._is_pipelined()
    assert (model._infeed_kwargs, model._outfeed_kwargs) == ({"prefetch_depth": 7}, {})
    assert model._gradient_accumulation_steps_per_replica == 4
    assert model._gradient_accumulation_reduction_method.name == "MEAN"
    assert model._pipelining_gradient_accumulation_steps_per_replica == 8
    assert model._pipelining_device_mapping == [0, 0]
    assert model._pipelining_accumulate_outfeed
    assert model._replicated_metric_reduction_method is ReplicatedMetricReductionMethod.SUM
    assert model._asynchronous_callbacks
