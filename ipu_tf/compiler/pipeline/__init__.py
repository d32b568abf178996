"""Steps that are split over several IPUs, stage by stage.

`deploy` gives an instruction the stage of its layer (`assignment`), cuts the step into a
module for each stage (`split`), finds the values that wait between passes (`fifo`), compiles every
stage for its IPU, moves offloaded variables off its tiles (`off_chip`, `residence`), and plays the
schedule (`schedule`, `timeline`). `balance` chooses where to cut, and `search` compiles every way
to train within bounds (`search_bounds`) and ranks them (`candidate`).

Models stages in lockstep; labels and other inputs go from the host to the stage that reads them.
Does not model the copies into and out of FIFOs, nor the zeroing of accumulators.
"""

from typing import TYPE_CHECKING

from ipu_tf.base.deprecation import deprecated_names

_NAMES_OF_DEVICE_PROGRAM = {
    "Crossing": "Crossing",
    "Moves": "Moves",
    "PipelineIpu": "IpuMemory",
    "PipelineProgram": "DeviceProgram",
    "PipelineStage": "StageProgram",
    "Schedule": "Schedule",
    "Timeline": "Timeline",
}
"""Names of this package that are now those of `device_program`."""

# Type checkers would take this function to mean "any name at all".
if not TYPE_CHECKING:
    __getattr__ = deprecated_names(
        __name__,
        {
            **{
                old: f"ipu_tf.tile_program.device_program.{new}"
                for old, new in _NAMES_OF_DEVICE_PROGRAM.items()
            },
            "Offload": f"{__name__}.deployment.Offload",
            "PipelineOptions": f"{__name__}.deployment.Deployment",
            "build_pipeline": f"{__name__}.deploy.deploy",
            "compile_pipeline": "ipu_tf.compiler.compile.compile_program",
        },
        others={
            name: f"{__name__}.deprecated.{name}" for name in ("build_pipeline", "compile_pipeline")
        },
    )
