"""Weights after accumulation, over replicas, in a pipeline: stock Keras' after the big batch."""

import keras
import pytest

from ipu_tf import config
from tests.grids import covering
from tests.keras.equivalence import (
    BATCH,
    UPDATES,
    ScaledLoss,
    batches,
    check_weights,
    samples,
    strategy_of,
)
from tests.keras.pipelined_models import KINDS, schedule_for

OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.05),
    "momentum": lambda: keras.optimizers.SGD(0.05, momentum=0.9),
    "adam": lambda: keras.optimizers.Adam(0.01),
}
AXES = {
    "kind": list(KINDS),
    "replicas": [1, 2, 4],
    "micro_batches": [1, 4, 8],
    "method": ["sum", "mean", "running_mean"],
    "stages": [1, 2, 4],
    "optimizer": list(OPTIMIZERS),
}


@pytest.fixture(autouse=True)
def _no_configuration_is_left():
    yield
    config.reset_ipu_configuration()


@pytest.mark.parametrize(*covering(2, **AXES))
@pytest.mark.fast_cells(1)
def test_weights_equal_the_big_batch(kind, replicas, micro_batches, method, stages, optimizer):
    big_batch = BATCH * micro_batches * replicas
    data = samples(big_batch * UPDATES)
    strategy = strategy_of(replicas * stages)
    keras.utils.set_random_seed(7)
    with strategy.scope():
        ours = KINDS[kind](stages)
        ours.compile(
            OPTIMIZERS[optimizer](), ScaledLoss(1.0), steps_per_execution=micro_batches * UPDATES
        )
        if stages == 1:
            ours.set_gradient_accumulation_options(micro_batches, method)
        else:
            ours.set_pipelining_options(
                gradient_accumulation_steps_per_replica=micro_batches,
                gradient_accumulation_reduction_method=method,
                pipeline_schedule=schedule_for(micro_batches, stages),
            )
    ours.fit(batches(data, BATCH), shuffle=False, verbose=0)

    keras.utils.set_random_seed(7)
    stock = KINDS[kind]()
    factor = replicas * (micro_batches if method == "sum" else 1)
    stock.compile(OPTIMIZERS[optimizer](), ScaledLoss(float(factor)))
    stock.fit(batches(data, big_batch), shuffle=False, verbose=0)

    check_weights(ours, stock)
    assert int(ours.optimizer.iterations) == UPDATES
