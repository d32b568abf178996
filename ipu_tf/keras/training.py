"""Keras' training loop on the IPU: data by the IPU's rules, programs of static shape."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from ipu_tf import config, scopes
from ipu_tf.infeed_iterator import stock_dataset_iterators
from ipu_tf.ipu_strategy import IPUStrategy
from ipu_tf.keras import data as data_rules
from ipu_tf.keras import functions
from ipu_tf.keras.data import Data
from ipu_tf.keras.lengths import Use

logger = logging.getLogger(__name__)


def _on_ipu(method: Callable[..., dict[str, Any]]) -> Callable[..., Any]:
    """Turns a method that prepares the arguments of Keras' method into one that replaces it.

    `method` gets all arguments of Keras' method of the same name, defaults included, as a dict and
    returns those to call it with. Under another strategy than an IPU's it is not called.
    """
    name = method.__name__
    stock = getattr(keras.Model, name)
    signature = inspect.signature(stock)

    @functools.wraps(stock)
    def call(self: IPUTrainer, *args: Any, **kwargs: Any) -> Any:
        next_method = getattr(super(IPUTrainer, self), name)
        if not self._runs_on_ipu():
            return next_method(*args, **kwargs)
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        arguments = {key: value for key, value in bound.arguments.items() if key != "self"}
        arguments |= arguments.pop("kwargs", {})
        with stock_dataset_iterators():  # Keras reads its iterators eagerly in places.
            return next_method(**method(self, arguments))

    return call


def _adopt(optimizer: Any, strategy: IPUStrategy) -> None:
    """Makes an optimizer one of `strategy`, also where it was made outside of the scope.

    An optimizer holds on to the strategy that it was made under. The variables of an IPU strategy
    are plain ones, so what it has made so far fits in.
    """
    while optimizer is not None:
        optimizer._distribution_strategy = strategy
        optimizer = getattr(optimizer, "inner_optimizer", None)


class IPUTrainer(keras.Model):
    """A Keras model whose training loop keeps the rules of the IPU.

    The data of `fit`, `evaluate`, `predict` and the `*_on_batch` methods is checked and converted
    before Keras sees it; the functions that run on it come from `make_train_function`,
    `make_test_function` and `make_predict_function`. A step is Keras' `train_step`, `test_step`
    or `predict_step`, or a user's; `strategy.run` makes it a program of the device.

    `jit_compile=True` is accepted and makes no difference: the step is a program of the device.
    """

    train_function: Callable[[Any], Any] | None
    test_function: Callable[[Any], Any] | None
    predict_function: Callable[[list[Any]], Any] | None
    _made_for: tuple[Any, ...] | None = None
    _said_narrowing = False

    @_on_ipu
    def fit(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """See `keras.Model.fit`; `ipu_tf.keras.data` has the rules for the data."""
        training, validation = data_rules.training_and_validation(arguments)
        training = self._prepare(
            training,
            method="fit",
            batch_size=arguments["batch_size"],
            steps=arguments["steps_per_epoch"],
            epochs=max(1, arguments["epochs"] - arguments["initial_epoch"]),
        )
        if validation is not None:
            validation = self._prepare(
                validation,
                method="fit",
                part="validation data",
                batch_size=arguments["validation_batch_size"] or arguments["batch_size"],
                steps=arguments["validation_steps"],
            )
            arguments["validation_split"] = 0.0
            arguments["validation_data"] = (validation.x, validation.y, validation.sample_weight)
        return arguments | training.arguments

    @_on_ipu
    def evaluate(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """See `keras.Model.evaluate`; `ipu_tf.keras.data` has the rules for the data."""
        data = self._prepare(
            Data.of(arguments),
            method="evaluate",
            batch_size=arguments["batch_size"],
            steps=arguments["steps"],
        )
        return arguments | data.arguments

    @_on_ipu
    def predict(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """See `keras.Model.predict`; `ipu_tf.keras.data` has the rules for the data."""
        data = self._prepare(
            Data.of(arguments),
            method="predict",
            batch_size=arguments["batch_size"],
            steps=arguments["steps"],
        )
        return arguments | {"x": data.x}

    @_on_ipu
    def train_on_batch(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """See `keras.Model.train_on_batch`."""
        data = self._prepare(Data.of(arguments), method="train_on_batch", one_batch=True)
        return arguments | data.arguments

    @_on_ipu
    def test_on_batch(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """See `keras.Model.test_on_batch`."""
        data = self._prepare(Data.of(arguments), method="test_on_batch", one_batch=True)
        return arguments | data.arguments

    @_on_ipu
    def predict_on_batch(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """See `keras.Model.predict_on_batch`."""
        data = self._prepare(Data.of(arguments), method="predict_on_batch", one_batch=True)
        return arguments | {"x": data.x}

    def make_train_function(self, force: bool = False) -> Callable[[Any], Any]:
        """Returns the function that runs one execution of training, made if needed or forced."""
        if not self._runs_on_ipu():
            return super().make_train_function(force)
        self._drop_stale_functions()
        if self.train_function is None or force:
            self.train_function = functions.iterator_function(
                self.distribute_strategy, self.train_step, self.steps_per_execution
            )
        return self.train_function

    def make_test_function(self, force: bool = False) -> Callable[[Any], Any]:
        """Returns the function that runs one execution of evaluation, made if needed or forced."""
        if not self._runs_on_ipu():
            return super().make_test_function(force)
        self._drop_stale_functions()
        if self.test_function is None or force:
            self.test_function = functions.iterator_function(
                self.distribute_strategy, self.test_step, self.steps_per_execution
            )
        return self.test_function

    def make_predict_function(self, force: bool = False) -> Callable[[list[Any]], Any]:
        """Returns the function that runs one execution of prediction, made if needed or forced."""
        if not self._runs_on_ipu():
            return super().make_predict_function(force)
        self._drop_stale_functions()
        if self.predict_function is None or force:
            self.predict_function = functions.predict_function(
                self.distribute_strategy, self.predict_step
            )
        return self.predict_function

    def _drop_stale_functions(self) -> None:
        """Drops functions that were made for another configuration of the device."""
        numerics = config.device_configuration(), scopes.current()
        if self._made_for not in (None, numerics):
            self.train_function = self.test_function = self.predict_function = None
        self._made_for = numerics

    def _runs_on_ipu(self) -> bool:
        """Returns whether the strategy is an IPU's.

        Raises:
            RuntimeError: If so, but functions are to run eagerly.
        """
        if not isinstance(self.distribute_strategy, IPUStrategy):
            return False
        for cause, eager in (
            ("`run_eagerly` is True", self.run_eagerly),
            ("`tf.config.run_functions_eagerly(True)` is set", tf.config.functions_run_eagerly()),
        ):
            if eager:
                raise RuntimeError(
                    "Keras models cannot run eagerly when using `IPUStrategy`: the IPU runs "
                    f"compiled programs. For model '{self.name}', {cause}. To debug a step, use "
                    "`tf.print`, or make the model outside of the strategy's scope."
                )
        return True

    def _prepare(self, data: Data, *, one_batch: bool = False, **use: Any) -> Data:
        prepare = data_rules.prepare_batch if one_batch else data_rules.prepare
        prepared = prepare(data, Use(model=self.name, **use))
        if prepared.narrowed and not self._said_narrowing:
            self._said_narrowing = True
            logger.warning(
                "Model '%s': the IPU has no 64-bit types, so data is converted, after a check "
                "that it fits: %s. This is said once for a model.",
                self.name,
                "; ".join(prepared.narrowed),
            )
        return prepared

    def _maybe_symbolic_build(self, iterator: Any = None, data_batch: Any = None) -> None:
        """Builds what is not built yet.

        Keras would read the first batch of `iterator` only for its shapes, which the specification
        of the dataset tells without losing a batch.
        """
        strategy = self.distribute_strategy
        if isinstance(strategy, IPUStrategy):
            _adopt(self.optimizer, strategy)
            if iterator is not None:
                data_batch = keras.tree.map_structure(
                    lambda spec: spec if hasattr(spec, "shape") else None,
                    iterator._get_iterator().element_spec,
                )
                iterator = None
        super()._maybe_symbolic_build(iterator=iterator, data_batch=data_batch)
