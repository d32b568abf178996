"""What the stages of a pipeline say of the planners, over the options of the device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ipu_tf.config.device import PlannerOptions
from ipu_tf.config.poplar_options import PlannerOverrides
from ipu_tf.planner.shapes import Family


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePlanning:
    """The planner options of one stage.

    Attributes:
        forward: For each family of operations; one that is missing has the options of the device.
        backward: The same for the gradients of the stage's operations.
    """

    forward: Mapping[Family, PlannerOverrides] = field(default_factory=dict)
    backward: Mapping[Family, PlannerOverrides] = field(default_factory=dict)

    def options(
        self, family: Family, device_options: PlannerOptions, *, backward: bool
    ) -> PlannerOptions:
        """Returns the options of an operation of the stage.

        Args:
            family: Its family.
            device_options: The options of the device.
            backward: Whether it is a gradient of an operation of the stage.
        """
        stage_options = (self.backward if backward else self.forward).get(family)
        return device_options if stage_options is None else stage_options.over(device_options)


def planning_at(path: str, stages: Mapping[str, StagePlanning]) -> StagePlanning | None:
    """Returns the planning at the path of a layer: that of the innermost layer with one.

    Args:
        path: Path of a layer, such as "sequential/dense"; "" outside of layers.
        stages: By paths of layers; "" stands for all of them.
    """
    while path and path not in stages:
        path = path.rpartition("/")[0]
    return stages.get(path)
