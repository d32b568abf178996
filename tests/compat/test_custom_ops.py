"""The names of custom and other ops."""

import pytest

pytestmark = pytest.mark.usefixtures("vendor_names")


def test_names_of_ops_lead_to_those_of_this_package():
    from ipu_tensorflow_addons import layers
    from ipu_tensorflow_addons.v1.layers import PopnnAUGRU
    from tensorflow.python import ipu
    from tensorflow.python.ipu import embedded_runtime, rnn_ops, serving
    from tensorflow.python.ipu.ops import embedding_ops, normalization_ops

    import ipu_tf.ops.custom_ops
    import ipu_tf.ops.rnn_ops
    import ipu_tf.serving.embedded_runtime

    assert serving.export_keras is ipu_tf.serving.export_keras
    found = embedded_runtime.embedded_runtime_call
    assert found is ipu_tf.serving.embedded_runtime.embedded_runtime_call
    assert PopnnAUGRU is ipu_tf.ops.rnn_ops.PopnnAUGRU
    assert layers.PopnnAUGRU is rnn_ops.PopnnAUGRU is PopnnAUGRU
    assert ipu.custom_ops.cpu_user_operation is ipu_tf.ops.custom_ops.cpu_user_operation
    assert ipu.custom_ops.precompiled_user_op is ipu_tf.ops.custom_ops.precompiled_user_op
    assert normalization_ops.group_norm is ipu_tf.ops.normalization_ops.group_norm
    assert embedding_ops.create_host_embedding is ipu_tf.ops.embedding_ops.create_host_embedding
