"""The pages of comparisons and sweeps in a browser: shown without a fault, and accessible."""

import pytest

from ipu_tf.profile import compare
from ipu_tf.sweep import Estimate, Outcome, Point, SweepResult
from tests.profile.comparison.test_comparison import faster, report
from tests.profile.html.pages import SCRIPT_END

pytestmark = pytest.mark.slow


def serious(found):
    return [finding for finding in found["axe"] if finding["impact"] in ("serious", "critical")]


def test_a_comparison(browser, tmp_path):
    page = tmp_path / "compared.html"
    compare(report(), report(faster(), name=SCRIPT_END)).to_html(page)
    found = browser("sections", page)
    assert f"Program '{SCRIPT_END}': faster, -10.00% seconds a sample" in found["text"]
    assert "net/dense" in found["text"]
    assert serious(found) == []


def test_a_sweep(browser, tmp_path):
    outcomes = {
        2: Outcome(memory_bytes=2000, samples_per_second=50.0, fits=True),
        4: Outcome(memory_bytes=4000, samples_per_second=90.0, fits=True),
        8: Outcome(memory_bytes=9000, samples_per_second=120.0),
        16: Outcome(error=SCRIPT_END),
    }
    estimates = tuple(
        Estimate(point=Point(chip=chip, batch_size=samples), outcome=outcome)
        for chip in ("bow", "gc200")
        for samples, outcome in outcomes.items()
    )
    page = tmp_path / "sweep.html"
    SweepResult(model="m:f", training=True, estimates=estimates).to_html(page)
    found = browser("sections", page)
    assert "8 estimates of training steps of m:f" in found["text"]
    assert SCRIPT_END in found["text"]
    assert "on the front" in found["text"]
    assert serious(found) == []


def test_long_tables_fill_the_window(browser, tmp_path):
    estimates = [Estimate(point=Point(batch_size=n), outcome=Outcome()) for n in range(1, 99)]
    page = tmp_path / "sweep.html"
    SweepResult(model="m:f", training=True, estimates=tuple(estimates)).to_html(page)
    (low,), (high,) = (browser("sections", page, height=h)["tables"] for h in (700, 1500))
    assert 500 < low < 700
    assert 1000 < high < 1500
