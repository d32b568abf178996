"""Models of tf_keras in the scope: they run, and say that they are not converted."""

import contextlib
import logging
import re

import numpy as np
import pytest

from ipu_tf import IPUConfig, IPUStrategy

tf_keras = pytest.importorskip("tf_keras")

MESSAGE = (
    "Models of tf_keras are not converted .* Use Keras 3: `import keras`, or `tf.keras` without"
)


def losses(strategy):
    """Trains a small model in the scope of a strategy, None for none."""
    x = np.arange(32, dtype="float32").reshape(8, 4) / 32
    scope = strategy.scope() if strategy else contextlib.nullcontext()
    with scope:
        tf_keras.utils.set_random_seed(3)
        model = tf_keras.Sequential([tf_keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        history = model.fit(x, x[:, :1], batch_size=4, epochs=2, verbose=0, shuffle=False)
        model.predict(x, batch_size=4, verbose=0)
    return history.history["loss"]


@pytest.mark.parametrize("converted", [True, False])
@pytest.mark.fast_cells(1)
def test_the_first_step_says_that_the_model_is_not_converted(caplog, converted):
    cfg = IPUConfig()
    cfg.ipu_model.tiles_per_ipu = 16
    cfg.configure_ipu_system()
    strategy = IPUStrategy(enable_keras_extensions=converted)
    with caplog.at_level(logging.WARNING, "ipu_tf"):
        history = losses(strategy)
    messages = [
        record.getMessage() for record in caplog.records if record.name.startswith("ipu_tf")
    ]
    notices = [message for message in messages if re.match(MESSAGE, message)]
    assert len(notices) == converted
    np.testing.assert_allclose(history, losses(None), rtol=1e-5)
    assert strategy.report().programs
