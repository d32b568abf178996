"""Records whose measurement is published otherwise."""

import pytest

from ipu_tf.calibration import compare, predict
from ipu_tf.calibration.compare import to_text
from ipu_tf.calibration.corrections import CORRECTIONS, corrected

INFERRED = {"cycles_counted": "compute sets only, no exchange, no sync", "partials": "float"}


@pytest.fixture
def popsparse(make):
    params = {"m": 256, "k": 256, "n": 64, **INFERRED}

    def popsparse_(**changes):
        fields = {"id": "popsparse_dense_fp16_n64", "chip": "gc200", "dtype": "f16", **changes}
        return make("dense_matmul", params, "TFLOP/s", **fields)

    return popsparse_


def test_what_is_published_replaces_what_is_inferred(popsparse):
    fixed = corrected(popsparse())
    assert fixed.chip == "bow"
    assert fixed.params["cycles_counted"] == "compute and exchange, no sync"
    assert (fixed.params["m"], fixed.measured) == (256, popsparse().measured)


@pytest.mark.parametrize(
    ("changes", "concerned"),
    [
        ({}, True),
        ({"id": "other", "source": "github graphcore-research/sparsity-benchmarks"}, True),
        ({"id": "other", "source": "elsewhere"}, False),
    ],
)
def test_a_correction_concerns_its_source(popsparse, changes, concerned):
    record = popsparse(**changes)
    assert (corrected(record) != record) == concerned


def test_other_kinds_of_a_source_are_left(make):
    record = make("host", {"tiles": 1}, id="popsparse_host")
    assert corrected(record) is record


def test_predictions_follow_the_publication(popsparse, make):
    params = {"m": 256, "k": 256, "n": 64, **CORRECTIONS[0].params}
    plain = make("dense_matmul", params, "TFLOP/s", chip="bow", dtype="f16")
    assert predict(popsparse()) == predict(plain)


def test_the_comparison_tells_what_was_corrected(popsparse):
    comparison = compare([popsparse()])
    assert comparison.corrections == ((CORRECTIONS[0], 1),)
    assert "1 of dense_matmul predicted as measured on bow: PopSparse" in to_text(comparison)
