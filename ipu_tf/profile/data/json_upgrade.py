"""Upgrades plain data of report files of earlier versions."""

from __future__ import annotations

from typing import cast

from ipu_tf.base import codec
from ipu_tf.tile_program.device_program import on_one_ipu
from ipu_tf.tile_program.program import TileProgram

_STAGES = 3
"""The first version whose device programs have stages (one stage on one IPU)."""


def upgraded(report: object, version: int) -> object:
    """Returns the plain data of a report in the format of the current version.

    Args:
        report: Plain data as read; it may be damaged, which the reader detects later.
        version: The version of its file.

    Raises:
        CodecError: A program is damaged.
    """
    if version >= _STAGES or not isinstance(report, dict):
        return report
    programs = report.get("programs")
    if not isinstance(programs, list):
        return report
    paths = (f"report.programs[{index}]" for index in range(len(programs)))
    return report | {"programs": list(map(_with_stages, programs, paths))}


def _with_stages(program: object, path: str) -> object:
    """Returns a program whose device program has stages.

    Up to version 2, `device` held the program of one IPU, `pipeline` that of several.
    """
    if not isinstance(program, dict):
        return program
    pipeline = program.get("pipeline")
    fields = {key: value for key, value in program.items() if key != "pipeline"}
    if pipeline is not None:
        return fields | {"device": _without_samples(pipeline)}
    if not isinstance(program.get("device"), dict):
        return fields
    device = dict(program["device"])
    samples = device.pop("samples_per_run", 0)
    tiles = codec.decode(TileProgram, device, f"{path}.device")
    upgraded = cast(dict[str, object], codec.encode(on_one_ipu(tiles, system="")))
    return fields | {"device": upgraded | {"samples_per_run": samples}}


def _without_samples(pipeline: object) -> object:
    """Returns a pipeline whose stages do not repeat its samples."""
    if not isinstance(pipeline, dict) or not isinstance(pipeline.get("stages"), list):
        return pipeline
    return pipeline | {"stages": [_stage(stage) for stage in pipeline["stages"]]}


def _stage(stage: object) -> object:
    if not isinstance(stage, dict) or not isinstance(stage.get("program"), dict):
        return stage
    program = {key: value for key, value in stage["program"].items() if key != "samples_per_run"}
    return stage | {"program": program}
