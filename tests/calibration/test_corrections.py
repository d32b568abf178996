"""Records whose measurement is published otherwise, as their file says."""

import json

import pytest

from ipu_tf.calibration import RecordError, compare, load_records, predict
from ipu_tf.calibration.comparison_text import to_json, to_text
from ipu_tf.calibration.validate import main

INFERRED = {"cycles_counted": "compute sets only, no exchange, no sync", "partials": "float"}
PUBLISHED = {"cycles_counted": "compute and exchange, no sync", "partials": "half of half inputs"}
SIZES = {"m": 256, "k": 256, "n": 64}
RECORD = {
    "id": "popsparse_dense_fp16_n64",
    "kind": "dense_matmul",
    "chip": "gc200",
    "dtype": "f16",
    "measured": 1.0,
    "unit": "TFLOP/s",
    "params": SIZES | INFERRED,
    "source": "github graphcore-research/sparsity-benchmarks",
}
CORRECTION = {
    "source": "PopSparse",
    "ids": [RECORD["id"]],
    "chip": "bow",
    "params": PUBLISHED,
    "why": "the authors say so",
}
OTHER = RECORD | {"id": "other"}


@pytest.fixture
def load(write):
    def load_(*corrections):
        return load_records(write({"records": [RECORD, OTHER], "corrections": [*corrections]}))

    return load_


def test_what_is_published_replaces_what_is_inferred(load):
    record, other = load(CORRECTION)
    assert (record.chip, record.corrected.chip) == ("gc200", "bow")
    assert record.corrected.params == SIZES | PUBLISHED
    assert record.corrected.measured == record.measured
    assert other.corrected is other


def test_predictions_follow_the_publication(load, make):
    as_published = make("dense_matmul", SIZES | PUBLISHED, "TFLOP/s", chip="bow", dtype="f16")
    as_inferred = make("dense_matmul", SIZES | INFERRED, "TFLOP/s", chip="gc200", dtype="f16")
    record, other = load(CORRECTION)
    assert predict(record) == predict(as_published)
    assert predict(other) == predict(as_inferred) != predict(as_published)


@pytest.mark.parametrize("wrapped", [True, False])
def test_without_corrections_records_are_predicted_as_they_say(write, make, wrapped):
    """Whatever their names and sources are."""
    records = load_records(write({"records": [RECORD]} if wrapped else [RECORD]))
    as_inferred = make("dense_matmul", SIZES | INFERRED, "TFLOP/s", chip="gc200", dtype="f16")
    assert predict(records[0]) == predict(as_inferred)
    assert compare(records).corrections == ()


def test_the_comparison_tells_what_was_corrected(load):
    comparison = compare(load(CORRECTION))
    ((correction, records),) = comparison.corrections
    assert (correction.source, [record.id for record in records]) == ("PopSparse", [RECORD["id"]])
    assert "1 of dense_matmul predicted as measured on bow: PopSparse" in to_text(comparison)
    entries = json.loads(to_json(comparison))
    assert [entry["corrected_by"] for entry in entries] == ["PopSparse", None]


def test_the_command_tells_what_was_corrected(write, capsys):
    path = str(write({"records": [OTHER, RECORD], "corrections": [CORRECTION]}))
    assert main([path, "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)
    assert [entry["corrected_by"] for entry in entries] == [None, "PopSparse"]


def test_the_measured_points_of_this_project_have_theirs(measured):
    corrected = {record.kind for record in measured if record.correction is not None}
    assert corrected == {"dense_matmul"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ids": ["nobody"]}, "'ids' names records that are not there: nobody"),
        ({"ids": "all"}, "'ids' must be a list of ids of records. Received: 'all'"),
        ({"chip": 3}, "'chip' must be a text. Received: 3"),
        ({"params": [1]}, r"'params' must be an object. Received: \[1\]"),
        ({"params": {"m": 1e308}}, "the parameter 'm' is not the size of a measurement"),
        ({"kind": "host"}, "a correction has no field 'kind'"),
    ],
)
def test_corrections_that_cannot_be_used(load, change, message):
    with pytest.raises(RecordError, match=f"correction 0: {message}"):
        load(CORRECTION | change)


def test_a_correction_needs_its_fields(load):
    with pytest.raises(RecordError, match="correction 0: a correction lacks 'ids', 'why'"):
        load({"source": "s", "chip": "bow"})
    with pytest.raises(RecordError, match="correction 1: a correction is an object. Received: 3"):
        load(CORRECTION, 3)


def test_a_record_has_one_correction(load):
    with pytest.raises(RecordError, match="correction 1: '.*_n64' is corrected twice. Remove it"):
        load(CORRECTION, CORRECTION)
