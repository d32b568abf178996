"""The IPU's additional methods of Keras models made in the scope."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ipu_tf.gradient_accumulation import GradientAccumulationReductionMethod
from ipu_tf.keras.data.lengths import positive_integer
from ipu_tf.keras.deployment.model_pipeline import (
    assign_stages,
    layer_graph,
    pipeline_of_model,
    remove_stages,
)
from ipu_tf.keras.options import (
    GradientAccumulationOptions,
    InfeedOptions,
    OutfeedOptions,
    RecomputationOptions,
    ReplicatedMetricReductionMethod,
    ReplicationOptions,
)
from ipu_tf.keras.pipeline import stages as stage_rules
from ipu_tf.keras.pipeline import summary
from ipu_tf.keras.pipeline.assignments import Assignment
from ipu_tf.keras.pipeline.pipelining_options import PipeliningOptions
from ipu_tf.keras.pipeline.recomputation_layers import checked_checkpoints
from ipu_tf.keras.saving import serving_export
from ipu_tf.keras.saving.model_files import OptionFiles, read_options
from ipu_tf.keras.vendor_attributes import VendorAttributes
from ipu_tf.ops.pipelining_ops import warn_about_idle_options
from ipu_tf.serving.export import Signature, Step

__all__ = ["IPUExtensions", "KerasExtensionBase", "ReplicatedMetricReductionMethod"]


class IPUExtensions(VendorAttributes):
    """Sets the options of a model's training loop, and assigns its layers to pipeline stages.

    Stages come from `PipelineStage` scopes until they are set or reset here.
    """

    _steps_per_execution = 1

    @property
    def steps_per_execution(self) -> int:
        """Steps that one call of the device runs; `compile` sets them.

        Raises:
            ValueError: They are set to anything but a positive integer.
        """
        return self._steps_per_execution

    @steps_per_execution.setter
    def steps_per_execution(self, steps: object) -> None:
        self._steps_per_execution = positive_integer(
            steps, f"`compile` of a {type(self).__name__} model: `steps_per_execution`"
        )

    def set_gradient_accumulation_options(
        self,
        gradient_accumulation_steps_per_replica: int | None = None,
        gradient_accumulation_reduction_method: (GradientAccumulationReductionMethod | str) = "sum",
        use_v2_gradient_accumulation_optimizer: bool = False,
        **gradient_accumulation_optimizer_kwargs: object,
    ) -> None:
        """Sets how many micro-batches make one weight update of `fit`.

        `steps_per_execution` must be a multiple of their number. With the default method the
        gradients are summed: an update is that many times larger than for the mean.

        Args:
            gradient_accumulation_steps_per_replica: Micro-batches of one update on each replica;
                None switches accumulation off.
            gradient_accumulation_reduction_method: A `GradientAccumulationReductionMethod` or
                its name: "sum", "mean" or "running_mean".
            use_v2_gradient_accumulation_optimizer: Accepted for compatibility: there is one way
                to accumulate, and any Keras optimizer works with it.
            **gradient_accumulation_optimizer_kwargs: `dtype` of the accumulators, and where the
                optimizer state lies; see `GradientAccumulationOptions`.

        Raises:
            TypeError: There is no such keyword argument.
            ValueError: An argument is out of its range, or belongs to another method.
        """
        del use_v2_gradient_accumulation_optimizer
        options = GradientAccumulationOptions.of(
            gradient_accumulation_steps_per_replica,
            gradient_accumulation_reduction_method,
            gradient_accumulation_optimizer_kwargs,
        )
        self._replace_in_state(accumulation=options)

    def set_replication_options(
        self, replicated_metric_reduction_method: ReplicatedMetricReductionMethod | str = "NONE"
    ) -> None:
        """Sets how the logs combine the values of all replicas; without a call, by their mean.

        Args:
            replicated_metric_reduction_method: A `ReplicatedMetricReductionMethod` or its name:
                "NONE" (the value of the last replica), "LIST", "SUM" or "MEAN".

        Raises:
            ValueError: There is no such method.
        """
        method = ReplicatedMetricReductionMethod.parse(replicated_metric_reduction_method)
        self._replace_in_state(replication=ReplicationOptions(metric_reduction=method))

    def set_asynchronous_callbacks(self, asynchronous: bool = False) -> None:
        """Sets whether callbacks are called once a step instead of once an execution.

        Callbacks then run on a separate thread while the device runs on, once a step with the
        reduced metrics of the replicas of this process; for each replica in `predict`, and if
        `set_replication_options("NONE")` leaves the metrics unreduced. They see the weights of the
        step that the device has reached.

        Args:
            asynchronous: True for once a step.

        Raises:
            TypeError: It is not a bool.
        """
        if not isinstance(asynchronous, bool):
            raise TypeError(f"`asynchronous` must be True or False. Received: {asynchronous!r}.")
        self._replace_in_state(asynchronous_callbacks=asynchronous)

    def set_infeed_queue_options(self, **kwargs: object) -> None:
        """Sets the options of the transfer of data to the device.

        Args:
            **kwargs: `prefetch_depth`, batches that are prepared ahead (default 3);
                `device_ordinal` and `optimise_latency` are accepted.

        Raises:
            TypeError: There is no such option.
            ValueError: An option is out of its range, or Keras itself sets it.
        """
        self._replace_in_state(infeed=InfeedOptions.of(kwargs))

    def set_outfeed_queue_options(self, **kwargs: object) -> None:
        """Sets the options of the transfer of results from the device.

        Args:
            **kwargs: `buffer_depth` and `optimise_latency`; neither changes the results.

        Raises:
            TypeError: There is no such option.
            ValueError: An option is out of its range, or Keras itself sets it.
        """
        self._replace_in_state(outfeed=OutfeedOptions.of(kwargs))

    def set_pipelining_options(
        self,
        gradient_accumulation_steps_per_replica: int | None = None,
        device_mapping: list[int] | None = None,
        accumulate_outfeed: bool | None = None,
        gradient_accumulation_reduction_method: (GradientAccumulationReductionMethod | str) = "sum",
        **pipelining_kwargs: object,
    ) -> None:
        """Sets how the stages of the model run as a pipeline.

        Args:
            gradient_accumulation_steps_per_replica: Micro-batches of a weight update on each
                replica. Training needs it; `steps_per_execution` is a multiple of it.
            device_mapping: IPU of each stage; by default stage i is on IPU i.
            accumulate_outfeed: Whether metrics come once a weight update instead of once a
                micro-batch; both cover all micro-batches so far.
            gradient_accumulation_reduction_method: A `GradientAccumulationReductionMethod` or
                its name: "sum", "mean" or "running_mean".
            **pipelining_kwargs: The further options of `PipeliningOptions`, such as
                `pipeline_schedule` and `recomputation_mode`.

        Raises:
            NotImplementedError: An option is not supported.
            TypeError: There is no such option, or it is of another type.
            ValueError: An argument is out of its range, or belongs to another method.
        """
        options = PipeliningOptions.of(
            gradient_accumulation_steps_per_replica,
            device_mapping,
            accumulate_outfeed,
            gradient_accumulation_reduction_method,
            pipelining_kwargs,
        )
        warn_about_idle_options(pipelining_kwargs, f"Pipeline of model '{self.name}'")
        self._replace_in_state(pipelining=options)

    def set_recomputation_options(
        self, checkpoints: Sequence[str] = (), recompute: bool | None = True
    ) -> None:
        """Sets how training recomputes activations, on one IPU and in the stages of a pipeline.

        Args:
            checkpoints: Names, or paths, of layers after which activations are kept, besides those
                of `RecomputationCheckpoint`. Without any, a model on one IPU gets those with which
                the fewest bytes are live, and stages keep their inputs.
            recompute: Whether activations are recomputed; None leaves it to `allow_recompute` of
                the configuration and the recomputation mode of the pipeline.

        Raises:
            TypeError: `checkpoints` are no names.
            ValueError: The model has no such layer.
        """
        options = RecomputationOptions(
            recompute=recompute, checkpoints=checked_checkpoints(self, checkpoints)
        )
        self._replace_in_state(recomputation=options)

    def get_pipeline_stage_assignment(self) -> list[Assignment]:
        """Returns the stage assignment of every layer, None for a layer without a stage.

        Returns:
            For a Sequential one per layer, otherwise one per call of a layer: of a functional model
            those farthest from its outputs first, as in the vendor's Keras, of a subclass in
            post-order. They are copies: pass them to `set_pipeline_stage_assignment` to apply
            changes.

        Raises:
            RuntimeError: The model is not built, or its layers changed since stages were set.
            ValueError: The layers of a subclassed model cannot be seen.
        """
        graph = layer_graph(self)
        return stage_rules.assignments_of(graph, self.ipu_training_state.stages_of(graph))

    def set_pipeline_stage_assignment(
        self, pipeline_stage_assignment: Sequence[Assignment | int]
    ) -> None:
        """Assigns a pipeline stage to every layer.

        Args:
            pipeline_stage_assignment: The result of `get_pipeline_stage_assignment`, with stages
                set; for a Sequential also a list of the stage numbers of its layers.

        Raises:
            RuntimeError: The model is not built.
            ValueError: The assignment does not fit the model, or data would flow backwards.
        """
        graph = layer_graph(self)
        stages = stage_rules.stages_of(graph, pipeline_stage_assignment)
        assign_stages(self, graph, stages)

    def reset_pipeline_stage_assignment(self) -> None:
        """Removes the stages of all layers: the model is no longer pipelined."""
        remove_stages(self)

    def print_pipeline_stage_assignment_summary(
        self, line_length: int | None = None, print_fn: Callable[[str], object] | None = None
    ) -> None:
        """Prints the stage of every layer as a table.

        Args:
            line_length: Characters of a line.
            print_fn: Takes each line; `print` by default.
        """
        assignments = self.get_pipeline_stage_assignment()
        for line in summary.lines(self, assignments, line_length):
            (print_fn or print)(line)

    def export_for_ipu_serving(
        self,
        export_dir: str | os.PathLike[str],
        batch_size: int | None = None,
        output_names: str | Sequence[str] | None = None,
        preprocessing_step: Step | None = None,
        preprocessing_step_signature: Signature | None = None,
        postprocessing_step: Step | None = None,
        postprocessing_step_signature: Signature | None = None,
        purge_export_dir: bool = False,
    ) -> tf.types.experimental.GenericFunction:
        """Writes a SavedModel that predicts a batch; it runs with and without `ipu_tf`.

        An execution of the device makes `steps_per_execution` predictions. The weights are those
        of now.

        Args:
            export_dir: Folder of the SavedModel; it must be empty or not exist.
            batch_size: Samples of a batch; None for that of the model's inputs.
            output_names: Names of the outputs in the signature; see `serving.export_single_step`,
                as for those that follow.
            preprocessing_step: Makes the model's inputs, on the host.
            preprocessing_step_signature: Shapes and dtypes of its inputs.
            postprocessing_step: Takes the model's outputs, on the host.
            postprocessing_step_signature: Shapes and dtypes of these outputs.
            purge_export_dir: Whether to empty the folder first.

        Returns:
            A tf.function of the exported signature that runs the model on the device; see
            `serving.export_single_step` for its results.

        Raises:
            RuntimeError: The model has no weights yet.
            TypeError: A signature is no list of `tf.TensorSpec`.
            ValueError: The folder is not empty, the batch size is unknown, a shape is not static,
                or steps do not fit each other.
        """
        return serving_export.export_model(
            self,
            export_dir,
            batch_size,
            output_names=output_names,
            preprocessing_step=preprocessing_step,
            preprocessing_step_signature=preprocessing_step_signature,
            postprocessing_step=postprocessing_step,
            postprocessing_step_signature=postprocessing_step_signature,
            purge_export_dir=purge_export_dir,
        )

    @functools.cached_property
    def ipu_option_files(self) -> OptionFiles:
        """Keeps the options of the model in its files."""
        return OptionFiles()

    def save_assets(self, dir_path: str) -> None:
        """Writes the options to a file of the folder if any option is set."""
        self.ipu_option_files.write_options(self, dir_path)

    def load_assets(self, dir_path: str | None) -> None:
        """Sets the options that are in the folder; it is None for a file without assets.

        Raises:
            ValueError: The options do not fit the model.
        """
        read_options(self, dir_path)

    def pipeline_stages(self) -> Mapping[str, int]:
        """Returns the stage of each layer by its path, empty for a model without stages.

        A path includes all layers below it. A layer that is called in several stages belongs to
        the first of them; these stages share an IPU.
        """
        pipeline = pipeline_of_model(self)
        return {} if pipeline is None else pipeline.stage_of_layers

    def _replace_in_state(self, **options: Any) -> None:
        """Replaces the training state by one with other options."""
        self.ipu_training_state = dataclasses.replace(self.ipu_training_state, **options)


KerasExtensionBase = IPUExtensions
