"""Files of the reports of large networks stay small, with the figures of every tile."""

import gzip

import keras
import pytest

import ipu_tf
from ipu_tf.profile.report import Report


@pytest.mark.slow
def test_a_training_report_of_resnet50(tmp_path):
    report = ipu_tf.estimate(lambda: keras.applications.ResNet50(weights=None), batch_size=4)
    path = tmp_path / "report.json.gz"
    report.to_json(path)
    assert path.stat().st_size < 1e6
    assert len(gzip.decompress(path.read_bytes())) < 20e6
    again = Report.from_json(path)
    assert str(again) == str(report)
    device = again.programs[0].device
    assert device.steps == report.programs[0].device.steps
    for step in device.steps:
        for superstep in step.supersteps:
            found = superstep.tile_figures
            assert found.compute_cycles.total == superstep.busy_tile_cycles
            received, sent = found.received_bytes.total, found.sent_bytes.total
            assert superstep.exchange_bytes == received + sent * bool(superstep.host_cycles)
