"""Reports of pipelines: their text, their file, their figures."""

import json

import pytest

from ipu_tf.compiler.options import CompilerOptions
from ipu_tf.compiler.pipeline import PipelineOptions, compile_pipeline
from ipu_tf.machine.target import target
from ipu_tf.profile.json_format import ReportFileError
from ipu_tf.profile.program import Program
from ipu_tf.profile.report import Report
from tests.compiler import modules


@pytest.fixture(scope="module")
def program():
    stages = {"sequential": 0, "sequential/dense": 1, "sequential/dense_1": 1}
    options = PipelineOptions(stage_of_layers=stages, micro_batches=4, replicas=2, recompute=True)
    chip = CompilerOptions(target=target("bow", 64), out_of_memory="report")
    return compile_pipeline(modules.text("cifar10"), chip, options, samples_per_run=4)


@pytest.fixture
def report(program):
    return Report(programs=(Program(name="net.train_step", pipeline=program),))


def test_the_text_has_the_schedule_the_stages_and_the_ipus(report, program):
    text = report.summary()
    assert "on bow-2000, 2 replicas of 2 bow IPUs, 64 tiles at 1.85 GHz each" in text
    assert (
        "2 stages, grouped schedule, 4 micro-batches an update, activations computed again" in text
    )
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
    pipeline = data["report"]["programs"][0]["pipeline"]
    pipeline["ipus"][1]["memory"]["always_live"]["weights"].pop()
    path.write_text(json.dumps(data))
    with pytest.raises(ReportFileError, match=r"pipeline.ipus\[1\].memory.always_live.weights"):
        Report.from_json(path)
