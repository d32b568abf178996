"""`pipeline` refuses what the machine would refuse, and says why."""

import keras
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy
from ipu_tf.base import trial
from ipu_tf.config import reset_ipu_configuration
from ipu_tf.feeds.outfeed_queue import IPUOutfeedMode, IPUOutfeedQueue
from ipu_tf.ops.pipelining_ops import PipelineSchedule, PipelineStageOptions
from ipu_tf.pipelining import OptimizerFunctionOutput, arguments, pipeline

SGD = tf.compat.v1.train.GradientDescentOptimizer(0.1)
INTERLEAVED, SEQUENTIAL = PipelineSchedule.Interleaved, PipelineSchedule.Sequential
WEIGHT = tf.Variable(2.0)


@pytest.fixture(autouse=True)
def unconfigured():
    yield
    reset_ipu_configuration()


def same(x):
    return x


def optimize(loss):
    return OptimizerFunctionOutput(SGD, loss)


@pytest.mark.parametrize(
    ("error", "message", "options"),
    [
        (ValueError, "gradient_accumulation_count must be specified", {}),
        (ValueError, "must be >= 0", {"gradient_accumulation_count": -1}),
        (ValueError, "must be < max int32", {"gradient_accumulation_count": 2**31}),
        (TypeError, "must be an integer", {"gradient_accumulation_count": 2.5}),
        (ValueError, "Pipeline requires at least two computational", {"stages": [same]}),
        (TypeError, "must be a list or a tuple of functions", {"stages": same}),
        (TypeError, "Stage 1 of `computational_stages` must be a function", {"stages": [same, 3]}),
        (TypeError, "or a list of such functions for several IPUs", {"stages": [[same, 3], same]}),
        (TypeError, "optional only where every stage is one", {"stages": [[same, same], same]}),
        (TypeError, "device_mapping argument needs to be a list", {"device_mapping": 3}),
        (ValueError, "Stage 0 has 1 functions, and", {"device_mapping": [[0, 1], 1]}),
        (TypeError, "a list of them for a stage of several", {"device_mapping": [0.5, 1]}),
        (ValueError, "numbers of IPUs from 0", {"device_mapping": [0, -1]}),
        (ValueError, "Each stage must be mapped to an IPU", {"device_mapping": [0]}),
        (TypeError, "must be a PipelineSchedule", {"pipeline_schedule": "Grouped"}),
        (TypeError, "must be a RecomputationMode", {"recomputation_mode": 1}),
        (ValueError, "`repeat_count` must be a positive", {"repeat_count": 0}),
        (
            ValueError,
            "an entry for each of the 2 stages",
            {"forward_propagation_stages_poplar_options": [PipelineStageOptions()]},
        ),
        (
            TypeError,
            "must be a list of PipelineStageOptions",
            {"backward_propagation_stages_poplar_options": 1},
        ),
        (
            TypeError,
            "must be of type PipelineStageOptions",
            {"forward_propagation_stages_poplar_options": [{}, {}]},
        ),
        (TypeError, "must be of type PipelineSt", {"weight_update_poplar_options": {}}),
        (TypeError, "`offload_weights` must be True, False", {"offload_weights": 1}),
        (NotImplementedError, "Continuous weight updates", {"continuous_weight_updates": True}),
        (
            NotImplementedError,
            "only supported with the `Sequential` schedule",
            {"batch_serialization_iterations": 2, "pipeline_schedule": INTERLEAVED},
        ),
        (
            NotImplementedError,
            "need to be mapped to a single IPU",
            {"batch_serialization_iterations": 2, "device_mapping": [0, 1]},
        ),
        (
            ValueError,
            "only supported when reduction_method is",
            {"batch_serialization_iterations": 2, "reduction_method": "mean"},
        ),
        (ValueError, "Cannot parse x as one", {"reduction_method": "x"}),
        (ValueError, "An optimizer_function must be provided", {"outfeed_mask": [True]}),
        (ValueError, "An optimizer_function must be provided", {"outfeed_loss": True}),
        (
            ValueError,
            "Only one of `outfeed_loss` and `outfeed_mask` can be set",
            {"outfeed_loss": True, "outfeed_mask": [True], "optimizer_function": optimize},
        ),
        (
            ValueError,
            "An outfeed_queue must be provided when outfeed_loss",
            {"outfeed_loss": True, "optimizer_function": optimize},
        ),
        (ValueError, "must be provided when accumulate_outfeed", {"accumulate_outfeed": True}),
        (
            ValueError,
            "it must be in IPUOutfeedMode ALL",
            {"accumulate_outfeed": True, "outfeed_queue": IPUOutfeedQueue(IPUOutfeedMode.LAST)},
        ),
        (TypeError, "`infeed_queue` must be an IPUInfeedQueue", {"infeed_queue": [1]}),
        (TypeError, "`outfeed_queue` must be an IPUOutfeedQueue", {"outfeed_queue": [1]}),
        (
            NotImplementedError,
            "The pipelining schedule Interleaved trains one stage on an IPU",
            {
                "pipeline_schedule": INTERLEAVED,
                "device_mapping": [0, 0],
                "optimizer_function": optimize,
            },
        ),
    ],
)
def test_refuses_arguments(error, message, options):
    stages = options.get("stages", [same, same])
    given = {name: value for name, value in options.items() if name != "stages"}
    if "must be specified" not in message:
        given = {"gradient_accumulation_count": 4, **given}
    with pytest.raises(error, match=message):
        pipeline(stages, **given)


def test_an_option_that_does_nothing_alone_is_logged(caplog):
    with pytest.raises(RuntimeError, match="runs inside of a program"):
        pipeline([same, same], 4, offload_weights=True)
    assert caplog.messages == [
        "The pipeline: `offload_weights=True` does nothing without `replicated_weight_sharding="
        "True`: set both, or neither."
    ]


@pytest.mark.parametrize(
    ("count", "depth", "options"),
    [
        (3, 2, {}),
        (6, 4, {"optimizer_function": optimize}),
        (3, 2, {"optimizer_function": optimize, "pipeline_schedule": INTERLEAVED}),
        (0, 1, {"pipeline_schedule": SEQUENTIAL}),
    ],
)
def test_refuses_a_count_that_does_not_fill_the_schedule(count, depth, options):
    message = (
        rf"number of iterations of the pipeline must be a multiple of {depth} .*at least {depth}"
    )
    with pytest.raises(tf.errors.FailedPreconditionError, match=message):
        pipeline([same, same], count, **options)


def test_runs_in_a_program_alone():
    with pytest.raises(RuntimeError, match="runs inside of a program of the IPU"):
        pipeline([same, same], 2)


def times_weight(x):
    return x * WEIGHT


def run(stages, optimizer_function=None, **options):
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()

    @tf.function
    def program(x):
        pipeline(stages, 4, inputs=[x], optimizer_function=optimizer_function, **options)

    IPUStrategy().run(program, args=(tf.constant(1.0),))


OUTSIDE = tf.zeros([200])


@pytest.mark.fast_cells(4)
@pytest.mark.parametrize(
    ("error", "message", "stages", "optimizer_function"),
    [
        (ValueError, "The last computational stage has tensor outputs", [same, same], None),
        (ValueError, "no outfeed_queue has been provided", [same, times_weight], optimize),
        (ValueError, "Trying to capture the tensor", [lambda x: x + OUTSIDE, lambda x: None], None),
        (ValueError, "returns an operation before a tensor", [lambda x: [tf.no_op(), x], same], 0),
        (TypeError, "must return an OptimizerFunctionOutput", [same, same], lambda x: x),
        (
            ValueError,
            "No variables to optimize",
            [same, same],
            optimize,
        ),
        (
            RuntimeError,
            "No variables to optimize. With a Keras optimizer",
            [same, times_weight],
            lambda loss: OptimizerFunctionOutput(keras.optimizers.SGD(), loss),
        ),
    ],
)
def test_refuses_stages(error, message, stages, optimizer_function):
    with pytest.raises(error, match=message):
        run(stages, optimizer_function or None)


def test_refuses_a_tensor_of_another_stage():
    kept = []

    def first(x):
        kept[:] = [x + 1]
        return x

    with pytest.raises(ValueError, match="Stage 1.*Trying to capture the tensor"):
        run([first, lambda x: x + kept[0]])


def test_refuses_a_mask_of_another_length():
    with pytest.raises(ValueError, match="has 1 outputs, but `outfeed_mask` has 2 elements"):
        run([same, times_weight], optimize, outfeed_mask=[True, False])


def test_refuses_stages_on_different_ipus_that_share_a_weight():
    with pytest.raises(ValueError, match="used by stages 0 and 1, which are on different IPUs"):
        run([times_weight, times_weight], optimize, outfeed_mask=[True])


@pytest.mark.parametrize(
    ("error", "message", "arguments"),
    [
        (TypeError, "must be a Keras optimizer or a tf.compat.v1", {"opt": "sgd"}),
        (ValueError, "compute_gradients_args may only", {"compute_gradients_args": [1]}),
        (
            ValueError,
            "may only be used with an optimizer of Ten",
            {"compute_gradients_kwargs": {1: 1}},
        ),
        (ValueError, "variables may only be used", {"opt": SGD, "variables": [WEIGHT]}),
        (TypeError, "tape must be a tf.GradientTape", {"tape": 1}),
        (
            ValueError,
            "either `variables` or `tape`",
            {"variables": [WEIGHT], "tape": tf.GradientTape()},
        ),
        (
            ValueError,
            "either `tape` or `gradient_capture_context`",
            {"tape": tf.GradientTape(), "gradient_capture_context": object()},
        ),
    ],
)
def test_refuses_results_of_an_optimizer_function(error, message, arguments):
    with pytest.raises(error, match=message):
        OptimizerFunctionOutput(**{"opt": keras.optimizers.SGD(), "loss": 0.0, **arguments})


@pytest.mark.parametrize(("repeats", "count", "expected"), [(9, 4, 2), (2, 4, 2), (9, 20, 1)])
def test_few_updates_try_a_script_out(repeats, count, expected):
    with trial.steps_limited_to(10):
        assert arguments._repeats(repeats, count, 1) == expected
        assert arguments._repeats(repeats, tf.constant(count), 1) == min(repeats, 10)
