"""The vendor's module names: what they lead to, and that they come and go."""

import pickle
import subprocess
import sys
import textwrap

import keras
import pytest
import tensorflow as tf

import ipu_tf
from ipu_tf import compat
from ipu_tf.base import spans
from ipu_tf.processes.instances import Instances

pytestmark = pytest.mark.usefixtures("vendor_names")


def test_the_names_lead_to_this_package():
    from tensorflow.python import ipu
    from tensorflow.python.ipu.config import IPUConfig
    from tensorflow.python.ipu.ops.pipelining_ops import PipelineSchedule

    assert ipu.config.IPUConfig is IPUConfig is ipu_tf.config.IPUConfig
    assert ipu.ipu_strategy.IPUStrategy is ipu_tf.IPUStrategy
    assert ipu.pipelining_ops.PipelineSchedule is PipelineSchedule
    assert ipu.utils.IPUConfig is IPUConfig
    assert issubclass(ipu.keras.Model, ipu_tf.keras.Model)
    assert ipu.horovod.popdist_strategy.__name__.endswith("horovod.popdist_strategy")


def test_modules_are_found_in_their_places_of_before():
    from tensorflow.python.ipu import cross_replica_optimizer, rnn_ops
    from tensorflow.python.ipu.map_gradient_optimizer import MapGradientOptimizer

    wrapped = cross_replica_optimizer.CrossReplicaOptimizer
    assert wrapped is ipu_tf.optimizers.CrossReplicaOptimizer
    assert MapGradientOptimizer is ipu_tf.optimizers.MapGradientOptimizer
    assert rnn_ops.PopnnGRU is ipu_tf.ops.rnn_ops.PopnnGRU


def test_modules_of_names_that_their_packages_show_are_found():
    from keras.ipu.layers.capture_upstream_gradients import CaptureUpstreamGradients
    from tensorflow.python.ipu.distributed.host_collective_ops import broadcast

    assert CaptureUpstreamGradients is ipu_tf.keras.layers.CaptureUpstreamGradients
    assert broadcast is ipu_tf.distributed.broadcast


def test_modules_of_releases_for_tensorflow_1_are_found():
    from tensorflow.python.ipu import ipu_optimizer

    assert ipu_optimizer.IpuOptimizer is ipu_tf.optimizers.IpuOptimizer
    assert keras.ipu.ReplicatedMetricReductionMethod.parse("mean").name == "MEAN"


def test_there_are_no_events_of_the_device(caplog):
    from tensorflow.compiler.plugin.poplar.ops import gen_ipu_ops

    events = gen_ipu_ops.ipu_event_trace()
    assert (events.dtype, events.shape) == (tf.string, (0,))
    assert "no events are recorded in the vendor's format" in caplog.text


def test_operations_of_the_plugin_are_there_and_others_raise_when_they_are_used():
    from tensorflow.compiler.plugin.poplar.ops import gen_popnn_ops, gen_popops_ops, gen_poputil_ops

    x = tf.constant([2.0, 4.0])
    for same in (gen_popops_ops.ipu_cross_replica_sum, gen_popops_ops.ipu_cross_replica_mean):
        assert (same(x) == x).numpy().all()
    assert (gen_poputil_ops.ipu_replication_normalise(x) == x).numpy().all()
    assert gen_poputil_ops.ipu_remap is ipu_tf.ops.internal_ops.remap
    with tf.Graph().as_default():
        assert gen_poputil_ops.device_sync().type == "NoOp"
    with pytest.raises(NotImplementedError, match="It is an operation of the vendor's plugin"):
        gen_popnn_ops.popnn_gelu(x)


def test_every_module_object_of_keras_has_them():
    import tensorflow.keras as imported
    from keras.ipu.optimizers import ALSOptimizer
    from tensorflow.keras.ipu import PipelineStage

    assert len({id(keras), id(tf.keras), id(imported), id(keras._tf_keras.keras)}) >= 3
    for host in (keras, tf.keras, imported, keras._tf_keras.keras):
        assert host.ipu.PipelineStage is PipelineStage is ipu_tf.keras.PipelineStage
    assert ALSOptimizer is ipu_tf.keras.optimizers.ALSOptimizer


def test_the_addons_are_those_of_this_package():
    from ipu_tensorflow_addons.keras.layers import LSTM, Embedding
    from ipu_tensorflow_addons.keras.optimizers import AdamIpuOptimizer

    assert LSTM is ipu_tf.keras.layers.LSTM
    assert Embedding is ipu_tf.keras.layers.Embedding
    assert AdamIpuOptimizer is ipu_tf.keras.optimizers.AdamIpuOptimizer


def test_a_process_is_the_only_instance():
    import popdist
    import popdist.tensorflow
    from tensorflow.python import ipu

    popdist.init()
    assert not popdist.isPopdistEnvSet()
    assert (popdist.getNumInstances(), popdist.getInstanceIndex()) == (1, 0)
    assert popdist.getNumTotalReplicas() == popdist.getNumLocalReplicas() == 1
    assert (popdist.getNumIpusPerReplica(), popdist.getDeviceId()) == (1, 0)
    assert (popdist.getLocalInstanceIndex(), popdist.getReplicaIndexOffset()) == (0, 0)
    assert popdist.checkNumIpusPerReplica(1)
    assert not popdist.checkNumIpusPerReplica(2)
    assert popdist.synchronize() is None
    assert popdist.execute_on_instances({0, 1}, divmod, 7, 4) == (1, 3)
    assert popdist.execute_on_instances({1}, divmod, 7, 4) is None
    config = ipu.config.IPUConfig()
    popdist.tensorflow.set_ipu_config(config, ipus_per_replica=2)
    assert config.auto_select_ipus == 2
    untouched = ipu.config.IPUConfig()
    set_config = popdist.tensorflow.set_ipu_config
    assert set_config(untouched, ipus_per_replica=2, configure_device=False) is untouched
    assert untouched.auto_select_ipus == []


def test_an_instance_knows_its_place_in_the_job(monkeypatch):
    import popdist
    import popdist.tensorflow
    from tensorflow.python import ipu

    job = Instances(
        index=1,
        count=2,
        local_index=1,
        total_replicas=4,
        local_replicas=2,
        replica_offset=2,
        ipus_per_replica=2,
        launcher="poprun",
    )
    for name, value in (job.variables() | {"PMI_RANK": "1", "PMI_SIZE": "2"}).items():
        monkeypatch.setenv(name, value)
    assert popdist.isPopdistEnvSet()
    assert (popdist.getNumInstances(), popdist.getInstanceIndex(), popdist.rank()) == (2, 1, 1)
    assert (popdist.getNumTotalReplicas(), popdist.getNumLocalReplicas()) == (4, 2)
    assert (popdist.getLocalInstanceIndex(), popdist.getReplicaIndexOffset()) == (1, 2)
    assert popdist.checkNumIpusPerReplica(2)
    assert popdist.execute_on_instances({0}, divmod, 7, 4) is None
    config = ipu.config.IPUConfig()
    popdist.tensorflow.set_ipu_config(config, ipus_per_replica=2)
    distribution = config.experimental.multi_replica_distribution
    assert (distribution.process_count, distribution.process_index) == (2, 1)
    assert config.auto_select_ipus == 4
    with pytest.raises(ValueError, match="must be the --ipus-per-replica of poprun, which is 2"):
        popdist.tensorflow.set_ipu_config(config, ipus_per_replica=1)


def test_earlier_names_of_the_strategy_of_several_processes():
    from tensorflow.python import ipu
    from tensorflow.python.ipu import horovod
    from tensorflow.python.ipu.horovod.ipu_multi_replica_strategy import IPUMultiReplicaStrategy

    assert IPUMultiReplicaStrategy is ipu.distributed.popdist_strategy.PopDistStrategy
    horovod.init()
    assert (
        (horovod.size(), horovod.rank()) == (horovod.local_size(), horovod.local_rank()) == (1, 0)
    )
    assert horovod.is_initialized()
    assert horovod.allreduce(3.0, horovod.Sum, postscale_factor=2.0).numpy() == 6.0
    assert horovod.allreduce([3, 4], op=horovod.Average, name="mean").numpy().tolist() == [3, 4]
    assert horovod.broadcast is ipu.distributed.broadcast
    assert [one.numpy() for one in horovod.grouped_allreduce([1.0, 2.0])] == [1, 2]
    horovod.broadcast_variables([tf.Variable(1.0)])
    horovod.shutdown()
    import horovod.tensorflow as hvd

    assert (hvd.size(), hvd.rank(), hvd.Sum) == (1, 0, horovod.Sum)
    with pytest.raises(AttributeError, match="has no attribute 'init'"):
        _ = ipu.distributed.init


def test_tracepoints_are_spans_of_the_host():
    import libpvti

    channel = libpvti.createTraceChannel("data")

    @libpvti.instrument_fn(channel)
    def augment():
        return 7

    recorder = spans.Recorder()
    with spans.attached(recorder), libpvti.Tracepoint(channel, "load"):
        assert augment() == 7
    names = [span.name for span in recorder.spans]
    assert [name.rpartition(".")[2] for name in names] == ["augment", "data: load"]
    assert names[0].startswith("data: ")


def test_a_name_that_does_not_exist_here_raises_when_it_is_used():
    from tensorflow.python.ipu import ipu_estimator
    from tensorflow.python.ipu.ops import f8_ops

    message = r"`ipu\.ops\.f8_ops\.f8_matmul` does not exist in ipu_tf\. The float8 of the IPU"
    with pytest.raises(NotImplementedError, match=message):
        f8_ops.f8_matmul(1, 2)
    with pytest.raises(NotImplementedError, match=message):
        f8_ops.f8_matmul.attribute  # noqa: B018
    with pytest.raises(NotImplementedError, match="TensorFlow has had no estimators"):
        ipu_estimator.IPUEstimator(model_fn=None)
    with pytest.raises(NotImplementedError, match="IPUEstimator"):

        class Derived(ipu_estimator.IPUEstimator):
            pass

    with pytest.raises(NotImplementedError, match="IPUEstimator"):
        isinstance(7, ipu_estimator.IPUEstimator)
    assert "f8_matmul" in repr(f8_ops.f8_matmul)


def test_a_name_that_the_vendor_does_not_have_is_no_attribute():
    from tensorflow.python import ipu

    with pytest.raises(AttributeError, match=r"'tensorflow\.python\.ipu' has no attribute 'ipus'"):
        ipu.ipus  # noqa: B018
    with pytest.raises(ImportError, match="nonsense"):
        from tensorflow.python.ipu import nonsense  # noqa: F401
    with pytest.raises(ModuleNotFoundError, match="nonsense"):
        import tensorflow.python.ipu.nonsense  # noqa: F401


def test_dir_lists_the_names_of_a_module():
    from tensorflow.python import ipu

    assert {"f8_matmul", "f8_conv_2d"} <= set(dir(ipu.ops.f8_ops))
    assert "IPUConfig" in dir(ipu.config)


def test_pickles_of_objects_found_under_the_vendor_s_names_load():
    from tensorflow.python.ipu.ops.pipelining_ops import PipelineSchedule

    assert pickle.loads(pickle.dumps(PipelineSchedule.Grouped)) is PipelineSchedule.Grouped
    by_old_name = b"ctensorflow.python.ipu.config\nIPUConfig\n."
    assert pickle.loads(by_old_name) is ipu_tf.config.IPUConfig


def test_a_second_installation_changes_nothing():
    before = list(sys.meta_path)
    compat.install(keras=3)
    assert sys.meta_path == before


def test_uninstalling_takes_every_name_away():
    import tensorflow.python.ipu.ops.nn_ops

    compat.uninstall()
    try:
        assert not compat.installed()
        assert not [name for name in sys.modules if name.startswith("tensorflow.python.ipu")]
        assert not hasattr(keras, "ipu")
        assert not hasattr(tf.keras, "ipu")
        with pytest.raises(ModuleNotFoundError, match="ipu"):
            import tensorflow.python.ipu  # noqa: F401
    finally:
        compat.install(keras=3)


@pytest.mark.slow
def test_the_names_can_come_before_tensorflow(tmp_path):
    (tmp_path / "popdist.py").write_text("real = True\n")
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys
            import ipu_tf.compat
            ipu_tf.compat.install()
            assert "tensorflow" not in sys.modules and "typing" not in sys.modules
            import popdist
            assert popdist.real
            import keras
            assert keras.ipu.PipelineStage
            from tensorflow import keras as lazy
            assert lazy.ipu.PipelineStage is keras.ipu.PipelineStage
            import tensorflow.keras as imported
            assert imported.ipu.PipelineStage is keras.ipu.PipelineStage
            """
        )
    )
    done = subprocess.run(
        [sys.executable, str(script)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_an_optimizer_of_keras_is_its_own_cross_replica_optimizer():
    from tensorflow.python.ipu.keras.optimizers import CrossReplicaOptimizer
    from tensorflow.python.ipu.keras.optimizers.cross_replica_optimizer import (
        CrossReplicaOptimizer as FromItsModule,
    )

    optimizer = keras.optimizers.SGD()
    assert CrossReplicaOptimizer(optimizer) is optimizer
    assert FromItsModule is CrossReplicaOptimizer
    with pytest.raises(TypeError, match=r"`opt` must be a Keras optimizer; .* Received: 'sgd'"):
        CrossReplicaOptimizer("sgd")


def test_modules_of_extensions_are_attributes():
    from keras.ipu import extensions

    assert extensions.functional_extensions.PipelineStage is keras.ipu.PipelineStage
    assert extensions.model_extensions.ModelExtension is extensions.ModelExtension
    assert extensions.pipeline_stage_assignment.ModelLayerPipelineStageAssignment
