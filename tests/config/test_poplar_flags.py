"""The flags of TF_POPLAR_FLAGS."""

import re

import pytest

from ipu_tf.config import PoplarFlags, SyntheticDataCategory, running_on_ipu_model
from ipu_tf.config.flags import parse_poplar_flags


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("", PoplarFlags()),
        ("--use_ipu_model", PoplarFlags(use_ipu_model=True)),
        ("--use_ipu_model=false", PoplarFlags()),
        (
            "--use_ipu_model=1 --null_data_feed",
            PoplarFlags(use_ipu_model=True, null_data_feed=True),
        ),
        ("--use_synthetic_data=True", PoplarFlags(use_synthetic_data=True)),
        (
            "--synthetic_data_categories=infeed,Parameters --synthetic_data_initializer=random",
            PoplarFlags(
                synthetic_data_categories=frozenset(
                    {SyntheticDataCategory.INFEED, SyntheticDataCategory.PARAMETERS}
                ),
                synthetic_data_initializer="random",
            ),
        ),
        (
            "  --executable_cache_path='/tmp/my cache' --max_infeed_threads=4",
            PoplarFlags(executable_cache_path="/tmp/my cache", max_infeed_threads=4),
        ),
        (
            "--show_progress_bar=auto --log_cycle_count=0 --on_demand_device_timeout=10",
            PoplarFlags(show_progress_bar="auto", log_cycle_count=0, on_demand_device_timeout=10),
        ),
        ("--show_progress_bar", PoplarFlags(show_progress_bar="true")),
        ("--new=1 word", PoplarFlags(unknown=("--new=1", "word"))),
    ],
)
def test_flags_are_read(text, flags):
    assert parse_poplar_flags(text) == flags


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("--use_ipu_model=maybe", "--use_ipu_model of TF_POPLAR_FLAGS takes true or false"),
        ("--log_cycle_count", "takes a whole number. Received: None."),
        ("--max_infeed_threads=1.5", "takes a whole number. Received: '1.5'."),
        ("--executable_cache_path=", "takes a value. Received: ''."),
        ("--show_progress_bar=no", "takes true, false or auto. Received: 'no'."),
        (
            "--synthetic_data_categories=infeed,outside",
            "takes a list of infeed, outfeed, seed, hostembedding, parameters, separated by "
            "commas. Received: 'infeed,outside'.",
        ),
        ("--executable_cache_path='open", "TF_POPLAR_FLAGS cannot be read: No closing quotation"),
    ],
)
def test_bad_flags_are_refused(text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_poplar_flags(text)


def test_the_environment_is_read_each_time(monkeypatch):
    assert not running_on_ipu_model()
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_ipu_model")
    assert running_on_ipu_model()
