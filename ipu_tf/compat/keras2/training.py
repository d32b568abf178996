"""`compile` and the methods of the training loop as Keras 2 had them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ipu_tf.compat.keras2 import patches
from ipu_tf.compat.spellings.spelling import Call, Notify, Spelling
from ipu_tf.internals.keras import KerasTrainer, keras_backend_trainer, keras_python_utils
from ipu_tf.internals.keras_training import result_names_of
from ipu_tf.internals.patches import Patch, Wrap
from ipu_tf.keras.keras3.hooks import KerasHooks

_SORTED_LOGS = tuple(
    Patch(owner, "pythonify_logs", "logs keep their order")
    for owner in (keras_backend_trainer, keras_python_utils)
)
_STEP_LOGS = Patch(
    KerasTrainer, "_get_metrics_result_or_logs", "an epoch's logs are what its last step returned"
)
_LOOP_ARGUMENTS = tuple(
    Patch(keras.Model, name, "the loop takes the arguments of Keras 2")
    for name in ("fit", "evaluate", "predict")
)
_BATCH_METHODS = tuple(
    Patch(keras.Model, name, "batches take the arguments of Keras 2")
    for name in ("train_on_batch", "test_on_batch", "predict_on_batch")
)
_GENERATOR_METHODS = tuple(
    Patch(keras.Model, name, "models have the loops over generators", is_new=True)
    for name in ("fit_generator", "evaluate_generator", "predict_generator")
)

_OF_ENQUEUERS = ("max_queue_size", "workers", "use_multiprocessing")
_WHOLE = ("steps_per_epoch", "epochs", "initial_epoch", "validation_steps", "steps", "batch_size")
_NOT_COMPILED: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {
        "target_tensors": (None,),
        "distribute": (None,),
        "cloning": (None,),
        "experimental_run_tf_function": (True, False, None),
    }
)

_ARRAYS = ("x", "y", "sample_weight")
_EVALUATION = ("steps", "callbacks", *_OF_ENQUEUERS, "verbose")
_GENERATOR_ARGUMENTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "fit": (
            "steps_per_epoch",
            "epochs",
            "verbose",
            "callbacks",
            "validation_data",
            "validation_steps",
            "validation_freq",
            "class_weight",
            "max_queue_size",
            "workers",
            "use_multiprocessing",
            "shuffle",
            "initial_epoch",
        ),
        "evaluate": _EVALUATION,
        "predict": _EVALUATION,
    }
)
"""The positions of the arguments of the generator methods, after the generator."""

# The IPU's models define these methods themselves.
_OF_IPU_MODELS = tuple(
    Patch(KerasHooks, patch.name, patch.reason) for patch in (*_LOOP_ARGUMENTS, *_BATCH_METHODS)
)
_LOGS_OF_IPU = Patch(KerasHooks, _STEP_LOGS.name, _STEP_LOGS.reason)


def methods_of_loop(*names: str) -> tuple[Patch, ...]:
    """Returns the methods of all models of these names."""
    of_models = (*_LOOP_ARGUMENTS, *_BATCH_METHODS, *_OF_IPU_MODELS)
    return tuple(patch for patch in of_models if patch.name in names)


LOOP = methods_of_loop("fit", "evaluate", "predict")
ON_BATCHES = methods_of_loop("train_on_batch", "test_on_batch", "predict_on_batch")


def _number(value: Any) -> Any:
    """Returns an eager tensor or a NumPy number of rank 0 as a number, anything else as it is."""
    if tf.is_tensor(value) and hasattr(value, "numpy"):
        value = value.numpy()
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value


def _to_numbers(call: Call, names: tuple[str, ...]) -> bool:
    """Makes arguments numbers; returns whether any was a tensor."""
    found = [name for name in names if tf.is_tensor(call.kwargs.get(name))]
    for name in found:
        call.kwargs[name] = _number(call.kwargs[name])
    return bool(found)


def _whole_steps(call: Call) -> bool:
    return _to_numbers(call, _WHOLE)


def _whole_execution(call: Call) -> bool:
    old = call.kwargs.pop("experimental_steps_per_execution", None)
    if call.kwargs.get("steps_per_execution", 1) is None:
        del call.kwargs["steps_per_execution"]
    if old is not None:
        call.kwargs.setdefault("steps_per_execution", old)
    return _to_numbers(call, ("steps_per_execution",)) or old is not None


def _jitted(call: Call) -> bool:
    if "experimental_compile" not in call.kwargs:
        return False
    call.kwargs.setdefault("jit_compile", bool(call.kwargs.pop("experimental_compile")))
    return True


def _lacking_classes(call: Call) -> bool:
    """Returns whether the weights of classes lack one below the largest."""
    weights = call.kwargs.get("class_weight")
    return isinstance(weights, Mapping) and sorted(weights) != list(range(len(weights)))


def _without_enqueuers(call: Call) -> bool:
    found = [name for name in _OF_ENQUEUERS if name in call.kwargs]
    for name in found:
        del call.kwargs[name]
    return bool(found)


def _without_compile_arguments(call: Call) -> bool:
    found = [name for name in ("sample_weight_mode",) if name in call.kwargs]
    found += [
        name for name, values in _NOT_COMPILED.items() if call.kwargs.get(name, call) in values
    ]
    for name in found:
        del call.kwargs[name]
    return bool(found)


def _positional_metrics(call: Call) -> bool:
    """Names `metrics` where it comes third, as in Keras 2; Keras 3 has `loss_weights` there."""
    if len(call.args) < 3 or not _are_metrics(call.args[2]):
        return False
    names = ("metrics", "loss_weights", "weighted_metrics", "run_eagerly", "steps_per_execution")
    call.kwargs |= dict(zip(names, call.args[2:], strict=False))
    call.args = call.args[:2]
    return True


def _metrics_of_each_output(call: Call) -> bool:
    """Gives each of several outputs all metrics of a flat list; it comes after their naming."""
    count = len(getattr(call.owner, "outputs", None) or ())
    found = False
    for name in ("metrics", "weighted_metrics"):
        metrics = call.kwargs.get(name)
        is_flat = isinstance(metrics, list | tuple) and not any(map(keras.tree.is_nested, metrics))
        if count > 1 and metrics and is_flat:
            call.kwargs[name] = [
                [copied_metric(metric) for metric in metrics] for _ in range(count)
            ]
            found = True
    return found


def _losses_of_each_output(call: Call) -> bool:
    """Gives each of several outputs the one loss of a model that weights its losses."""
    names = list(getattr(call.owner, "output_names", None) or ())
    loss, weights = call.kwargs.get("loss"), call.kwargs.get("loss_weights")
    if len(call.args) > 1:
        loss = call.args[1]
    if not names and isinstance(weights, list | tuple):
        names = [""] * len(weights)  # A subclass of models: it tells its outputs when it is called.
    if len(names) < 2 or loss is None or not weights or keras.tree.is_nested(loss):
        return False
    call.args = call.args[:1]
    call.kwargs["loss"] = [loss] * len(names)
    if isinstance(weights, Mapping):
        call.kwargs["loss"] = dict.fromkeys(names, loss)
        call.kwargs["loss_weights"] = {name: weights.get(name, 1.0) for name in names}
    return True


def _lists_of_numbers(call: Call) -> bool:
    """Makes lists of numbers arrays, and inputs of one number a sample rows of one column."""
    given = {"x": call.args[0]} if call.args else {}
    given |= {name: call.kwargs[name] for name in _ARRAYS if name in call.kwargs}
    if len(call.args) > 1:
        given["y"] = call.args[1]
    arrays = {name: np.asarray(part) for name, part in given.items() if _are_numbers(part)}
    x = arrays.get("x", given.get("x"))
    if isinstance(x, np.ndarray) and x.ndim == 1 and x.size:
        arrays["x"] = x[:, np.newaxis]
    for name, position in (("x", 0), ("y", 1), ("sample_weight", None)):
        if name in arrays and position is not None and position < len(call.args):
            call.args = (*call.args[:position], arrays[name], *call.args[position + 1 :])
        elif name in arrays:
            call.kwargs[name] = arrays[name]
    return bool(arrays)


def _are_numbers(value: Any) -> bool:
    """Returns whether a value is a list of Python numbers, or of such lists."""
    if not isinstance(value, list | tuple) or not value:
        return False
    return all(isinstance(part, int | float) or _are_numbers(part) for part in value)


def copied_metric(metric: Any) -> Any:
    """Returns another metric of the same arguments; names and functions are as they are."""
    is_metric = isinstance(metric, keras.Metric)
    return type(metric).from_config(metric.get_config()) if is_metric else metric


def _are_metrics(value: Any) -> bool:
    leaves = keras.tree.flatten(value)
    return bool(leaves) and not any(isinstance(leaf, int | float) for leaf in leaves)


def _generator_method(name: str) -> Callable[[Notify], Wrap]:
    """Returns the factory of a method that calls that of the loop."""
    method = name.removesuffix("_generator")

    def of_notify(notify: Notify) -> Wrap:
        def wrap(stock: None) -> Callable[..., Any]:
            del stock  # Keras 3 has no such method.

            def call(model: keras.Model, generator: Any, *args: Any, **kwargs: Any) -> Any:
                notify()
                kwargs |= dict(zip(_GENERATOR_ARGUMENTS[method], args, strict=False))
                kwargs.setdefault("verbose", int(method == "fit"))
                kept = {key: value for key, value in kwargs.items() if key not in _OF_ENQUEUERS}
                return getattr(model, method)(generator, **kept)

            return call

        return wrap

    return of_notify


def _logs_of_steps(notify: Notify) -> Wrap:
    """Makes an epoch's logs those of its last step where they may not be in the metrics."""

    def wrap(stock: Callable[..., Any]) -> Callable[..., Any]:
        def logs_of_epoch(model: keras.Model, logs: Any) -> Any:
            found = stock(model, logs)
            if found is logs or not (has_own_step(model) or _has_no_counts(model)):
                return found
            notify()
            return logs

        return logs_of_epoch

    return wrap


def _loss_first(notify: Notify) -> Wrap:
    """Returns the factory of the logs of an epoch, in the order of the results of `evaluate`."""
    del notify  # Nothing that a script says asks for it.

    def wrap(stock: Callable[..., Any]) -> Callable[..., Any]:
        def logs_of_epoch(model: keras.Model, logs: Any) -> Any:
            found = stock(model, logs)
            if not isinstance(found, Mapping) or len(found) < 2:
                return found
            names = [name for name in ("loss", *result_names_of(model)) if name in found]
            return {name: found[name] for name in dict.fromkeys((*names, *found))}

        return logs_of_epoch

    return wrap


def _in_given_order(notify: Notify) -> Wrap:
    """Returns the factory of the conversion of logs for callbacks, which sorts them."""
    del notify  # Nothing that a script says asks for it.

    def wrap(stock: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def convert(logs: Any) -> Any:
            found = stock(logs)
            return {
                name: found[name]
                for name in dict.fromkeys((*(logs or ()), *found))
                if name in found
            }

        return convert

    return wrap


def has_own_step(model: keras.Model) -> bool:
    """Returns whether the class of a model, a script's, has a step of its own."""
    own = (c for c in type(model).__mro__ if not c.__module__.startswith(("keras.", "ipu_tf.")))
    return any({"train_step", "test_step"} & vars(c).keys() for c in own)


def _has_no_counts(model: keras.Model) -> bool:
    """Returns whether the metrics are as after `model.reset_metrics()`."""
    return not any(np.any(variable) for variable in model.metrics_variables)


SPELLINGS = (
    Spelling(
        name="`fit(workers=, use_multiprocessing=, max_queue_size=)`, also `evaluate`, `predict`",
        keras_2="Threads or processes read a generator in advance.",
        here="They are left out: the generator runs in the script's thread. The batches are the "
        "same.",
        rewrites=MappingProxyType(dict.fromkeys(LOOP, _without_enqueuers)),
    ),
    Spelling(
        name="`fit(steps_per_epoch=dataset.cardinality())`, a tensor as a number of steps",
        keras_2="A tensor was a number.",
        here="The tensor's value is taken.",
        rewrites=MappingProxyType(dict.fromkeys(LOOP, _whole_steps)),
    ),
    Spelling(
        name="`fit(class_weight=)` without the weights of some classes",
        keras_2="It was refused.",
        here="A class without a weight has weight 1.",
        is_kept=False,
        rewrites=MappingProxyType(dict.fromkeys(LOOP, _lacking_classes)),
    ),
    Spelling(
        name="`fit_generator`, `evaluate_generator`, `predict_generator`",
        keras_2="They ran the loop over a generator.",
        here="They call `fit`, `evaluate` and `predict`, which take generators.",
        wraps=MappingProxyType(
            {patch: _generator_method(patch.name) for patch in _GENERATOR_METHODS}
        ),
    ),
    Spelling(
        name="`compile(steps_per_execution=dataset.cardinality())`, a tensor",
        keras_2="A tensor was a number.",
        here="The tensor's value is taken; None is 1, as in Keras 2.",
        rewrites=MappingProxyType({patches.COMPILATION: _whole_execution}),
    ),
    Spelling(
        name="`compile(experimental_compile=)`",
        keras_2="Whether XLA compiles the step.",
        here="It is read as `jit_compile=`. `tf.function(experimental_compile=)` is TensorFlow's "
        "own and works as ever.",
        rewrites=MappingProxyType({patches.COMPILATION: _jitted}),
    ),
    Spelling(
        name="`compile(optimizer, loss, metrics)` by position",
        keras_2="The third position was `metrics`.",
        here="Metrics in the third position are read as `metrics=`; numbers there are "
        "`loss_weights`, as in Keras 3.",
        rewrites=MappingProxyType({patches.COMPILATION: _positional_metrics}),
    ),
    Spelling(
        name="`compile(metrics=[...])` of a model of several outputs",
        keras_2="Each output had all metrics of a flat list.",
        here="Each output has all of them; Keras 3 alone takes one metric for each output.",
        rewrites=MappingProxyType({patches.COMPILATION: _metrics_of_each_output}),
    ),
    Spelling(
        name="`compile(loss=..., loss_weights=[...])` of a model of several outputs",
        keras_2="Each output had the loss, times its weight.",
        here="Each output has the loss, times its weight.",
        rewrites=MappingProxyType({patches.COMPILATION: _losses_of_each_output}),
    ),
    Spelling(
        name="`fit([1.0, 2.0], [3.0, 4.0])`, lists of numbers, inputs `[samples]`",
        keras_2="Lists were arrays, and inputs `[samples]` were `[samples, 1]`.",
        here="They are made such arrays.",
        rewrites=MappingProxyType(dict.fromkeys((*LOOP, *ON_BATCHES), _lists_of_numbers)),
    ),
    Spelling(
        name="`compile(sample_weight_mode=, target_tensors=None, experimental_run_tf_function=)`",
        keras_2="They chose between implementations; the weights of samples have their shape.",
        here="They are left out. Other values of the latter two are refused.",
        rewrites=MappingProxyType({patches.COMPILATION: _without_compile_arguments}),
    ),
    Spelling(
        name="a `train_step` or `test_step` that returns values under the names of metrics, a "
        "callback that calls `model.reset_metrics()` after each batch",
        keras_2="The logs of an epoch were what its last step returned.",
        here="They are; Keras 3 alone takes the results of the metrics, which the step may not "
        "have updated, or the callback reset.",
        wraps=MappingProxyType({_STEP_LOGS: _logs_of_steps}),
    ),
    Spelling(
        name="the order of `history.history`",
        keras_2="The loss, the losses of outputs, then the metrics as they were given.",
        here="It is so; Keras 3 alone sorts the names.",
        wraps=MappingProxyType(
            {
                _STEP_LOGS: _loss_first,
                _LOGS_OF_IPU: _loss_first,
                **dict.fromkeys(_SORTED_LOGS, _in_given_order),
            }
        ),
    ),
)
