"""Reports of pipelines: their text, their file, their figures."""

import dataclasses
import json
import re

import pytest

from ipu_tf.compiler.compile import compile_program
from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.pipeline.deployment import Deployment, Offload
from ipu_tf.machine.target import target
from ipu_tf.profile.data.json_format import ReportFileError
from ipu_tf.profile.report import Report
from ipu_tf.profile.text.rendering import Rendering, rendering
from ipu_tf.programs.program import Program
from tests.compiler import modules


@pytest.fixture(scope="module")
def program():
    stages = {"sequential": 0, "sequential/dense": 1, "sequential/dense_1": 1}
    options = Deployment(stage_of_layers=stages, micro_batches=4, replicas=2, recompute=True)
    chip = CompilerOptions(target=target("bow", 64), out_of_memory="report")
    return compile_program(modules.text("cifar10"), chip, samples_per_run=4, deployment=options)


@pytest.fixture
def report(program):
    return Report(programs=(Program(name="net.train_step", device=program),))


def test_the_text_has_the_schedule_the_stages_and_the_ipus(report, program):
    text = report.summary()
    assert "on bow-2000, 2 replicas of 2 bow IPUs, 64 tiles at 1.85 GHz each" in text
    assert "2 stages, grouped schedule, 4 micro-batches an update, activations recomputed" in text
    assert f"{program.cycles:,} cycles a weight update" in text
    assert "32 samples an update" in text
    assert f"limited by    stage {program.limiting_stage.index} on IPU" in text
    assert "IPU 1 (stage 1)" in text
    assert f"all-reduce {program.all_reduce_cycles:,}" in text


def test_a_file_gives_the_report_back(report, tmp_path):
    path = tmp_path / "report.json"
    report.to_json(path)
    again = Report.from_json(path)
    assert again.summary() == report.summary()
    assert again.complete


def test_a_file_has_the_figures(report, program, tmp_path):
    path = tmp_path / "report.json"
    report.to_json(path)
    (figures,) = json.loads(path.read_text())["figures"]
    assert figures["program"] == "net.train_step"
    assert figures["cycles"] == program.cycles
    assert figures["samples_per_second"] == pytest.approx(
        32 / program.target.seconds(program.cycles)
    )
    assert [stage["fifo_depth"] for stage in figures["stages"]] == [2, 1]
    assert figures["ipus"][0]["bytes_by_category"]["fifos"] > 0


def test_arrays_of_every_ipu_are_checked(report, tmp_path):
    path = tmp_path / "report.json"
    report.to_json(path)
    data = json.loads(path.read_text())
    pipeline = data["report"]["programs"][0]["device"]
    pipeline["ipus"][1]["memory"]["always_live"]["weights"].pop()
    path.write_text(json.dumps(data))
    with pytest.raises(ReportFileError, match=r"device.ipus\[1\].memory.always_live.weights"):
        Report.from_json(path)


class TestOffChip:
    """The text lists tensors in streaming memory and shared tensors with their cycles."""

    OFFLOAD = Offload(optimizer_state=True, shard_weights=True)

    def report_of(self, **changes):
        chip = CompilerOptions(target=target("bow", 64), out_of_memory="report")
        options = Deployment(**({"stage_of_layers": {}, "replicas": 2} | changes))
        program = compile_program(
            modules.text("cifar10"), chip, samples_per_run=4, deployment=options
        )
        return program, Report(programs=(Program(name="net.train_step", device=program),))

    @pytest.mark.fast_cells(1)
    @pytest.mark.parametrize("stages", [1, 2])
    def test_a_table_says_what_moves(self, stages):
        layers = {"sequential": 0, "sequential/dense": stages - 1}
        program, report = self.report_of(stage_of_layers=layers, offload=self.OFFLOAD)
        lines = report.summary().split("\n")
        (header,) = [n for n, line in enumerate(lines) if "off the tiles" in line]
        rows = lines[header + 1 : header + 1 + stages]
        for row, stage in zip(rows, program.stages, strict=True):
            assert f"stage {stage.index}" in row
            assert f"{stage.streamed.update:,}" in row
            assert f"{stage.gathered.forward:,}" in row
            assert stage.streamed.update > 0
            assert stage.gathered.forward > 0

    def test_shares_of_one_stage_add_up(self):
        _, report = self.report_of(stage_of_layers={"sequential": 0}, offload=self.OFFLOAD)
        with rendering(Rendering(width=200)):
            lines = report.summary().split("\n")
        (line,) = [line for line in lines if "spent on" in line]
        shares = [float(share) for share in re.findall(r"([\d.]+)%", line)]
        assert "streaming" in line
        assert "gathering" in line
        assert sum(shares) == pytest.approx(100, abs=0.5)

    def test_nothing_is_said_where_all_is_on_the_tiles(self, report):
        assert "off the tiles" not in report.summary()

    def test_streaming_memory_that_is_too_small_is_told(self):
        program, _ = self.report_of(stage_of_layers={"sequential": 0}, offload=self.OFFLOAD)
        small = dataclasses.replace(program, streaming_limit_bytes=1000)
        report = Report(programs=(Program(name="net.train_step", device=small),))
        assert "OUT OF STREAMING MEMORY: " in report.summary()
        assert not small.fits

    def test_a_file_has_the_figures(self, tmp_path):
        layers = {"sequential": 0, "sequential/dense": 1}
        program, report = self.report_of(stage_of_layers=layers, offload=self.OFFLOAD)
        path = tmp_path / "report.json"
        report.to_json(path)
        (figures,) = json.loads(path.read_text())["figures"]
        assert figures["streaming_bytes"] == program.streaming_bytes > 0
        first = figures["stages"][0]
        assert first["streamed_cycles"]["update"] == program.stages[0].streamed.update
        assert first["gathered_cycles"]["backward"] == program.stages[0].gathered.backward
        assert Report.from_json(path).summary() == report.summary()
