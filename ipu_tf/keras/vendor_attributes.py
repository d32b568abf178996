"""Options of a model under the names of the vendor's private attributes, which scripts read."""

from __future__ import annotations

from ipu_tf.keras.options import (
    GradientAccumulationReductionMethod,
    ReplicatedMetricReductionMethod,
    chosen,
)
from ipu_tf.keras.training_state import StatefulModel


class VendorAttributes(StatefulModel):
    """Tells the options of a model's training state; setters are the methods `set_..._options`."""

    def _is_pipelined(self) -> bool:
        """Returns whether layers of the model have pipeline stages."""
        return self.ipu_training_state.may_pipeline(self)

    @property
    def _infeed_kwargs(self) -> dict[str, object]:
        """The arguments of `set_infeed_queue_options` that are not the default."""
        return chosen(self.ipu_training_state.infeed)

    @property
    def _outfeed_kwargs(self) -> dict[str, object]:
        """The arguments of `set_outfeed_queue_options` that are not the default."""
        return chosen(self.ipu_training_state.outfeed)

    @property
    def _gradient_accumulation_steps_per_replica(self) -> int:
        """Micro-batches of a weight update of a model without stages."""
        return self.ipu_training_state.accumulation.steps_per_replica

    @property
    def _gradient_accumulation_reduction_method(self) -> GradientAccumulationReductionMethod:
        """How a model without stages reduces the gradients of micro-batches."""
        return self.ipu_training_state.accumulation.reduction_method

    @property
    def _pipelining_gradient_accumulation_steps_per_replica(self) -> int | None:
        """Micro-batches of a weight update of a pipelined model; None for not set."""
        return self.ipu_training_state.pipelining.steps_per_replica

    @property
    def _pipelining_device_mapping(self) -> list[int] | None:
        """The IPU of each stage; None for stage i on IPU i."""
        mapping = self.ipu_training_state.pipelining.device_mapping
        return None if mapping is None else list(mapping)

    @property
    def _pipelining_accumulate_outfeed(self) -> bool:
        """Whether metrics of a pipelined model come once a weight update."""
        return self.ipu_training_state.pipelining.accumulate_outfeed

    @property
    def _replicated_metric_reduction_method(self) -> ReplicatedMetricReductionMethod:
        """How logs combine the metrics of replicas."""
        return self.ipu_training_state.replication.metric_reduction

    @property
    def _asynchronous_callbacks(self) -> bool:
        """Whether callbacks are called once a step."""
        return self.ipu_training_state.asynchronous_callbacks
