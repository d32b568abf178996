"""Stages of a pipeline have planner options of their own, in each pass."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy
from ipu_tf.config import reset_ipu_configuration
from ipu_tf.feeds.infeed_queue import IPUInfeedQueue
from ipu_tf.feeds.outfeed_queue import IPUOutfeedQueue
from ipu_tf.ops.pipelining_ops import PipelineStageOptions
from ipu_tf.pipelining import OptimizerFunctionOutput, pipeline

HALF = PipelineStageOptions(matmul_options={"partialsType": "half"})
SMALL = PipelineStageOptions(matmul_options={"availableMemoryProportion": "0.0004"})
DEFAULT = PipelineStageOptions()


@pytest.fixture(autouse=True)
def two_ipus():
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()
    yield
    reset_ipu_configuration()


def plans(**options):
    """Returns the plans of the products of a stage, forward and backward, by stage."""
    strategy = IPUStrategy()
    with strategy.scope():
        weights = [tf.Variable(tf.ones(shape, tf.float16)) for shape in ((64, 64), (64, 64))]
    infeed = IPUInfeedQueue(
        tf.data.Dataset.from_tensor_slices(np.ones((4, 64, 64), "float16")).repeat()
    )
    outfeed = IPUOutfeedQueue()
    optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.1)

    def optimize(loss):
        return OptimizerFunctionOutput(optimizer, loss)

    @tf.function
    def train():
        pipeline(
            [
                lambda batch: tf.nn.relu(tf.matmul(batch, weights[0])),
                lambda x: tf.reduce_mean(tf.matmul(x, weights[1])),
            ],
            4,
            infeed_queue=infeed,
            outfeed_queue=outfeed,
            optimizer_function=optimize,
            name="staged",
            **options,
        )

    strategy.run(train)
    (program,) = strategy.report().programs
    found = {}
    for op in program.tile_ops:
        key = int(op.name.partition("stage_")[2][0]), "gradients" in op.name
        found.setdefault(key, set()).add(op.plan)
    return found


def test_partials_are_those_of_the_stage_and_the_pass():
    found = plans(
        forward_propagation_stages_poplar_options=[HALF, DEFAULT],
        backward_propagation_stages_poplar_options=[DEFAULT, HALF],
    )
    partials = {key: {plan.partials for plan in of_pass} for key, of_pass in found.items()}
    assert partials == {
        (0, False): {"float16"},
        (0, True): {"float32"},
        (1, False): {"float32"},
        (1, True): {"float16"},
    }


@pytest.mark.slow
def test_the_share_of_memory_is_that_of_the_stage():
    plain = plans()
    found = plans(forward_propagation_stages_poplar_options=[SMALL, DEFAULT])
    assert found[0, False] != plain[0, False]
    assert {key: of_pass for key, of_pass in found.items() if key != (0, False)} == {
        key: of_pass for key, of_pass in plain.items() if key != (0, False)
    }


def test_wrong_values_name_the_stage():
    wrong = PipelineStageOptions(convolution_options={"partialsType": "int8"})
    name = r"backward_propagation_stages_poplar_options\[1\]\.convolution_options\['partialsType'\]"
    with pytest.raises(ValueError, match=name):
        plans(backward_propagation_stages_poplar_options=[DEFAULT, wrong])


def test_options_of_no_planner_are_logged(caplog):
    odd = PipelineStageOptions(
        matmul_options={"use128BitConvUnitLoad": "true"}, slice_options={"planConstraints": "{}"}
    )
    with caplog.at_level("INFO", "ipu_tf"):
        assert odd.overrides("stage[0]") == {"matmul": odd.overrides("x")["matmul"]}
    assert "stage[0].matmul_options['use128BitConvUnitLoad']" in caplog.text
    assert "stage[0].slice_options['planConstraints']" in caplog.text
