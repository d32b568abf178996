"""The methods that Keras calls on a model, which the IPU's loop and files replace.

Each delegates: to `loop`, `steps` and `saving` for an IPU strategy, to Keras for any other.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping

import keras
import tensorflow as tf

from ipu_tf.internals.keras_layers import keras_layer_path
from ipu_tf.internals.keras_outputs import placeholders_of_outputs
from ipu_tf.internals.keras_training import KerasEpochIterator, element_spec_of
from ipu_tf.internals.structures import SpecStructure
from ipu_tf.keras.adapters.graphs import Structure
from ipu_tf.keras.adapters.loops import Logs
from ipu_tf.keras.adapters.models import adapter_of
from ipu_tf.keras.deployment.model_pipeline import check_stages_of_built
from ipu_tf.keras.keras3.graph_adapter import GRAPHS, shapes_of
from ipu_tf.keras.keras3.h5_options import H5Options, take_options
from ipu_tf.keras.keras3.random_states import RandomStates
from ipu_tf.keras.loop.execution import batch_spec
from ipu_tf.keras.loop.step_checks import runs_on_ipu
from ipu_tf.keras.saving.options_config import set_options
from ipu_tf.keras.saving.whole_files import FilePath, files_of, written_by
from ipu_tf.keras.steps.overrides import of_loop
from ipu_tf.keras.training_hooks import TrainingHooks
from ipu_tf.strategy import IPUStrategy


def _on_ipu(name: str) -> Callable[..., object]:
    """Returns Keras' method of that name with data and model prepared for the IPU."""

    @functools.wraps(getattr(keras.Model, name))
    def call(self: KerasHooks, *args: object, **kwargs: object) -> object:
        stock = getattr(super(KerasHooks, self), name)
        if not runs_on_ipu(self, made_in_scope=self._made_in_scope):
            return stock(*args, **kwargs)
        with self.ipu_training_loop.prepared(self, name, args, kwargs) as arguments:
            return stock(**arguments)

    return call


def _with_files(name: str) -> Callable[..., object]:
    """Returns Keras' method of that name as a span of the host timeline."""

    @functools.wraps(getattr(keras.Model, name))
    def call(self: KerasHooks, *args: object, **kwargs: object) -> object:
        with files_of(self, name):
            return getattr(super(KerasHooks, self), name)(*args, **kwargs)

    return call


of_loop(inspect.getattr_static(keras.Model, "predict_step"))  # Keras' own step predicts.


class KerasHooks(TrainingHooks, keras.Model):
    """A Keras model whose loop runs on the IPU and whose files keep its options."""

    _build_shapes_dict: dict[str, Structure] | None

    fit = _on_ipu("fit")
    evaluate = _on_ipu("evaluate")
    predict = _on_ipu("predict")
    train_on_batch = _on_ipu("train_on_batch")
    test_on_batch = _on_ipu("test_on_batch")
    predict_on_batch = _on_ipu("predict_on_batch")

    load_weights = _with_files("load_weights")
    export = _with_files("export")

    @functools.wraps(keras.Model.save_weights)
    def save_weights(
        self, filepath: FilePath, overwrite: bool = True, max_shard_size: float | None = None
    ) -> None:
        """Writes the weights; see `keras.Model.save_weights`."""
        is_file = overwrite and max_shard_size is None
        with written_by(self, "save_weights", filepath, is_file=is_file) as path:
            return super().save_weights(path, overwrite, max_shard_size)

    @functools.wraps(keras.Model.save)
    def save(
        self,
        filepath: FilePath,
        overwrite: bool = True,
        zipped: bool | None = None,
        **kwargs: object,
    ) -> None:
        """Writes the model with its options; see `keras.Model.save`.

        Raises:
            RuntimeError: The configuration of the model, in an `.h5` file, lacks its options.
        """
        self.ipu_option_files.check_config(self, filepath)
        is_file = overwrite and zipped is not False
        with written_by(self, "save", filepath, is_file=is_file) as path:
            return super().save(path, overwrite, zipped, **kwargs)

    def _aggregate_additional_loss(self, loss: tf.Tensor) -> tf.Tensor:
        """Returns a loss of a layer, such as a regularizer's, in the dtype of the compiled loss.

        Keras cannot add a float16 loss to it.
        """
        if isinstance(self.distribute_strategy, IPUStrategy):
            loss = keras.ops.cast(loss, keras.config.floatx())
        return super()._aggregate_additional_loss(loss)

    def __call__(self, *args: Structure, **kwargs: Structure) -> Structure:
        """Calls the model; see `keras.Layer.__call__`."""
        placeholders = placeholders_of_outputs(self)
        if placeholders is not None:
            return placeholders
        if self.ipu_training_loop.building_for_training:
            kwargs["training"] = True
        return super().__call__(*args, **kwargs)

    def get_config(self) -> dict[str, object]:
        """Returns Keras' configuration; for an `.h5` file it includes the options."""
        config: dict[str, object] = super().get_config()
        self.ipu_option_files.add_options(self, config)
        return config

    @classmethod
    def from_config(
        cls, config: Mapping[str, object], custom_objects: Mapping[str, object] | None = None
    ) -> keras.Model:
        """Returns a model from Keras' configuration, with the options in it."""
        options = take_options(config)
        model = super().from_config(config, custom_objects=custom_objects)
        if options and isinstance(model, KerasHooks):
            set_options(model, options)
        return model

    @functools.cached_property
    def ipu_option_files(self) -> H5Options:
        """Keeps the options of the model in its files."""
        return H5Options()

    @functools.cached_property
    def _ipu_tf_random_states(self) -> RandomStates:
        """The states of random generators, an attribute that Keras finds when it saves a model."""
        return RandomStates(self)

    def __dir__(self) -> list[str]:
        # By default these are the names of `__class__`, which is the stock class for our models.
        return [*super().__dir__(), "_ipu_tf_random_states"]

    def _post_build(self) -> None:
        """Stores the dtypes and shapes of inputs that `build` was given as `keras.Input`.

        Raises:
            ValueError: A user has built a subclassed model, and only some of its layers are in
                `PipelineStage` scopes.
        """
        super()._post_build()
        inputs = self._build_shapes_dict or {}
        if len(inputs) == 1 and GRAPHS.tensors_in(inputs):
            (self.ipu_layer_calls.seen_inputs,) = inputs.values()
        self._build_shapes_dict = shapes_of(inputs) if inputs else None
        if not keras_layer_path():  # Otherwise a call builds it, or a model around it.
            check_stages_of_built(self)

    def _maybe_symbolic_build(
        self, iterator: KerasEpochIterator | None = None, data_batch: SpecStructure = None
    ) -> None:
        """Builds the parts of the model that are not built yet."""
        if isinstance(self.distribute_strategy, IPUStrategy):
            adapter_of(self).adopt_optimizers()
            if not self.ipu_training_loop.builds(self):
                return
            data_batch = _seen_batch(self, iterator, data_batch)
            iterator = None
        super()._maybe_symbolic_build(iterator=iterator, data_batch=data_batch)

    def _symbolic_build(
        self, iterator: KerasEpochIterator | None = None, data_batch: SpecStructure = None
    ) -> None:
        """Builds the loss and the metrics on a symbolic call of the model."""
        with self.ipu_training_loop.building():
            super()._symbolic_build(iterator=iterator, data_batch=data_batch)

    def _get_metrics_result_or_logs(self, logs: Logs) -> Logs:
        """Returns the logs of an epoch.

        With replicas these are the reduced logs: the model's own metrics are the last replica's.
        """
        if self.ipu_training_loop.functions.are_replicated:
            return logs
        return super()._get_metrics_result_or_logs(logs)


def _seen_batch(
    model: KerasHooks, iterator: KerasEpochIterator | None, batch: SpecStructure
) -> SpecStructure:
    """Returns the shapes and types of the batch that Keras is to build a model for.

    Keras would read the first batch of `iterator` for its shapes alone. The specification of the
    dataset gives them without losing a batch.

    Args:
        model: The model, which keeps the shapes and types of its inputs.
        iterator: Reads the batches, or None.
        batch: A batch, or None; not used if there is an iterator.
    """
    if iterator is not None:
        batch = batch_spec(element_spec_of(iterator))
    if batch is not None:
        adapter_of(model).note_inputs(batch)
    return batch
