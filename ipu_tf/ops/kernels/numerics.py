"""The numerics of a tile op: the machine, the type of partials, the rounding.

One frozen value is made from the configuration and the scopes around an op; everything below the
configuration (plans, attributes) depends on this value alone.
"""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass

from ipu_tf import scopes
from ipu_tf.base import call_path
from ipu_tf.config import DeviceConfiguration
from ipu_tf.config.device import PlannerOptions
from ipu_tf.machine.target import Target
from ipu_tf.planner.plan import OpShape, Plan, PlanDoesNotFit
from ipu_tf.planner.planner import plan_op
from ipu_tf.planner.shapes import Family
from ipu_tf.planner.stage_planning import StagePlanning, planning_at

_LOG = logging.getLogger(__name__)
_UNBOUNDED_TILE_BYTES = 2**62

GRADIENT_PLANNING = "_ipu_gradient_planning"
"""Attribute of tile ops in stages of a pipeline: the planner options of their gradients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TileNumerics:
    """The numerics of one tile op.

    Attributes:
        target: The machine to plan for.
        partials: Type of partial results, "float32" or "float16".
        available_memory_proportion: Share of a tile's memory that an op's plan may take, (0, 1].
        stochastic_rounding: Whether float16 results are rounded stochastically.
        nanoo: Whether float16 overflow gives NaN (else the largest finite value).
        out_of_memory: "raise", "warn" or "report" (neither), for the case that no plan fits a tile.
    """

    target: Target
    partials: str = "float32"
    available_memory_proportion: float = 0.6
    stochastic_rounding: bool = False
    nanoo: bool = False
    out_of_memory: str = "raise"

    def planned(self, shape: OpShape, op: str) -> Plan:
        """Returns the planner's plan for `shape`; `op` names it in messages.

        Raises:
            PlanDoesNotFit: No plan fits a tile and `out_of_memory` is "raise".
        """
        try:
            return self._search(shape, self.target, self.available_memory_proportion)
        except PlanDoesNotFit as error:
            if self.out_of_memory == "raise":
                raise PlanDoesNotFit(f"Op '{op}' does not fit: {error}") from None
            if self.out_of_memory == "warn":
                _LOG.warning("Op '%s' does not fit and runs all the same: %s", op, error)
        unbounded = dataclasses.replace(self.target, tile_bytes=_UNBOUNDED_TILE_BYTES)
        return self._search(shape, unbounded, 1.0)

    def _search(self, shape: OpShape, machine: Target, proportion: float) -> Plan:
        return plan_op(
            shape, machine, partials=self.partials, available_memory_proportion=proportion
        )


def numerics_for(
    family: Family,
    configuration: DeviceConfiguration,
    *,
    layer: str | None = None,
    backward: bool = False,
) -> TileNumerics:
    """Returns the numerics of an op here: the configuration with the overrides of scopes.

    Args:
        family: The family of the op.
        configuration: The device.
        layer: Path of its layer; None for the layer that is being called.
        backward: Whether it is a gradient of an op of the layer.
    """
    scope = scopes.current()
    stochastic = configuration.stochastic_rounding != "off"
    if scope.stochastic_rounding is not None:
        stochastic = scope.stochastic_rounding
    options = _options(family, configuration, _stage(layer), backward=backward)
    return TileNumerics(
        target=configuration.target,
        partials=scope.partials or options.partials,
        available_memory_proportion=options.available_memory_proportion,
        stochastic_rounding=stochastic,
        nanoo=configuration.nanoo,
        out_of_memory=configuration.out_of_memory,
    )


def planning_of_gradients(
    family: Family, configuration: DeviceConfiguration, layer: str
) -> dict[str, str]:
    """Returns the attribute of an op that has the planner options of its gradients.

    There is none where no stage of a pipeline has options: gradients then take those of the op.

    Args:
        family: The family of the op.
        configuration: The device.
        layer: Path of its layer.
    """
    stage = _stage(layer)
    if stage is None:
        return {}
    options = _options(family, configuration, stage, backward=True)
    partials = scopes.current().partials or options.partials
    return {GRADIENT_PLANNING: f"{partials} {options.available_memory_proportion!r}"}


def with_planning(numerics: TileNumerics, planning: str) -> TileNumerics:
    """Returns numerics with the planner options of an attribute `GRADIENT_PLANNING`."""
    partials, proportion = planning.split()
    return dataclasses.replace(
        numerics, partials=partials, available_memory_proportion=float(proportion)
    )


def _options(
    family: Family,
    configuration: DeviceConfiguration,
    stage: StagePlanning | None,
    *,
    backward: bool,
) -> PlannerOptions:
    configured = configuration.matmul if family == "matmul" else configuration.conv
    return configured if stage is None else stage.options(family, configured, backward=backward)


def _stage(layer: str | None) -> StagePlanning | None:
    """Returns what the stage of a layer, None for that being called, says of the planners."""
    stages = scopes.current().planning
    if stages is None:
        return None
    return planning_at(call_path.current().path if layer is None else layer, stages)
