"""The tutorial on custom ops: its op is that of TensorFlow, and its network learns."""

import re

import pytest

from ipu_tf import config
from tutorials.custom_op import __main__ as tutorial

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("installed")]


def test_the_op_is_that_of_tensorflow_and_trains(capsys):
    try:
        tutorial.main(["--epochs", "8"])
    finally:
        config.reset_ipu_configuration()
    printed = capsys.readouterr().out
    assert float(re.search(r"difference from TensorFlow: (\S+)", printed)[1]) < 1e-5
    first, last = map(float, re.search(r"loss: (\S+) in .*, (\S+) in", printed).groups())
    assert last < 0.7 * first
    # Keras numbers the model when the process had others.
    assert re.search(r"sequential(_\d+)?/snake", printed)
