"""The logs of replicas, reduced to those that callbacks see."""

import numpy as np
import pytest

from ipu_tf.keras.options import ReplicatedMetricReductionMethod as Reduction
from ipu_tf.keras.options import ReplicationOptions
from ipu_tf.keras.replication.replica_logs import reduced_logs

LOSSES = np.array([1e8, 1, -1e8, 3], np.float32)


@pytest.mark.parametrize(
    ("reduction", "expected"),
    [
        (Reduction.NONE, 3),
        (Reduction.LIST, LOSSES),
        (Reduction.SUM, 0),  # (1e8 + 1) + (-1e8 + 3): the ones and threes are rounded away.
        (Reduction.MEAN, 0),
    ],
)
def test_values_are_reduced_by_the_tree_of_all_sums(reduction, expected):
    found = reduced_logs({"loss": LOSSES}, reduction)["loss"]
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == np.float32


def test_each_element_of_a_metric_is_reduced_alone():
    metric = np.array([[1, 2], [3, 5]], np.float16)
    np.testing.assert_array_equal(reduced_logs([metric], Reduction.MEAN), [[2, 3.5]])


def test_by_default_callbacks_see_the_mean():
    assert ReplicationOptions().metric_reduction is Reduction.MEAN


@pytest.mark.parametrize("reduction", list(Reduction))
def test_the_value_of_a_single_replica_is_that_of_all(reduction):
    assert reduced_logs({"loss": LOSSES[1:2]}, reduction) == {"loss": 1}
