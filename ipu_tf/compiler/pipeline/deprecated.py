"""Deprecated functions: a pipeline is a device program of several stages."""

from __future__ import annotations

from collections.abc import Mapping

from ipu_tf.compiler.compile import compile_program
from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.hlo import Module
from ipu_tf.compiler.pipeline.deploy import deploy
from ipu_tf.compiler.pipeline.deployment import Deployment
from ipu_tf.planner.plan import OpShape, Plan
from ipu_tf.tile_program.device_program import DeviceProgram


def compile_pipeline(
    module: Module,
    options: CompilerOptions,
    pipeline: Deployment,
    plans: Mapping[str, tuple[OpShape, Plan]] | None = None,
    samples_per_run: int = 0,
) -> DeviceProgram:
    """Returns the program of `compile_program` with `pipeline` as its deployment."""
    return compile_program(module, options, plans or {}, samples_per_run, pipeline)


def build_pipeline(
    module: Module,
    options: CompilerOptions,
    pipeline: Deployment,
    plans: Mapping[str, tuple[OpShape, Plan]] | None = None,
    samples_per_run: int = 0,
) -> DeviceProgram:
    """Returns the program of `deploy`, whether it fits or not."""
    return deploy(module, options, pipeline, plans or {}, samples_per_run)
