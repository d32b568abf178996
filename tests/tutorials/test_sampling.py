"""The tutorials of sampling: what they print is right, and a stopped run goes on."""

import re
import warnings

import numpy as np
import pytest

from ipu_tf import config

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from tutorials import bayesian_regression, mcmc, vae

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def _no_configuration_is_left():
    yield
    config.reset_ipu_configuration()


def test_a_regression_meets_its_closed_form(capsys):
    bayesian_regression.main([])
    printed = capsys.readouterr().out
    assert "bmi" in printed
    (errors,) = re.findall(r"at most ([\d.]+) Monte Carlo errors", printed)
    assert float(errors) < 4.5


def test_windows_are_sampled_on_four_ipus_and_resumed(tmp_path, capsys):
    words = ["--windows", "2", "--samples", "30", "--leapfrog-steps", "10"]
    words += ["--directory", str(tmp_path / "draws"), "--plot", str(tmp_path / "plot.png")]
    mcmc.main(words)
    first = capsys.readouterr().out
    assert (tmp_path / "plot.png").read_bytes()[:4] == b"\x89PNG"
    assert {path.name for path in (tmp_path / "draws").iterdir()} == {"window_000", "window_001"}
    assert re.search(r"2 windows will take about \d+:\d\d:\d\d", first)
    assert re.search(r"us a leapfrog step, [\d.]+ ms a sample, [\d.]+ s a window", first)
    mcmc.main(words)
    windows = re.findall("window .*", capsys.readouterr().out)
    assert windows
    assert windows == re.findall("window .*", first)


def test_predictions_are_those_of_the_density():
    weights = np.random.default_rng(0).normal(size=(3, 2, sum(mcmc.SIZES))).astype("float32")
    assert weights.shape[-1] == 963
    x, _ = mcmc.window_of(mcmc.make_series(600), 1)
    found = mcmc.predictions(weights, x)
    assert found.shape == (3, 2, mcmc.ROWS)
    np.testing.assert_allclose(found[1, 1], mcmc.predict(weights[1, 1], x), rtol=1e-3, atol=1e-4)


def test_an_autoencoder_learns_to_rebuild_digits(capsys):
    vae.main(["--epochs", "8"])
    first, last = re.findall(
        r"loss ([\d.]+) in the first epoch, ([\d.]+)", capsys.readouterr().out
    )[0]
    assert float(last) < 0.75 * float(first)
