"""Measurements of datasets."""

import json

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy, dataset_benchmark
from ipu_tf.ipu_infeed_queue import IPUInfeedQueue

DATASET = tf.data.Dataset.from_tensors((np.zeros((4, 5), "float32"), np.int32(1))).repeat(6)


def test_a_dataset_is_measured(capsys):
    with IPUStrategy().scope():
        found = dataset_benchmark.dataset_benchmark(DATASET, 2, 3)
    epochs = json.loads(found.numpy()[0])["epochs"]
    assert len(epochs) == 2
    for epoch in epochs:
        assert (epoch["elements_processed"], epoch["total_bytes_processed"]) == (3, 3 * 84)
        assert epoch["elements_per_second"] == pytest.approx(3 / epoch["time_elapsed"])
        assert epoch["bandwidth"] == pytest.approx(252 / epoch["time_elapsed"] / 1e9)
    assert capsys.readouterr().out.count("elements/s") == 2


@pytest.mark.slow
def test_an_infeed_is_measured_in_a_graph(capsys):
    infeed = IPUInfeedQueue(DATASET)

    @tf.function
    def measure():
        return dataset_benchmark.infeed_benchmark(infeed, 1, 2, print_stats=False, do_memcpy=False)

    assert json.loads(measure().numpy()[0])["epochs"][0]["elements_processed"] == 2
    assert capsys.readouterr().out == ""


def test_a_session_measures_a_dataset_of_placeholders():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        rows = tf.compat.v1.placeholder(tf.float32, [None, 2])
        dataset = tf.data.Dataset.from_tensor_slices(rows).repeat()
        measured = dataset_benchmark.dataset_benchmark(dataset, 1, 5, print_stats=False)
        (found,) = session.run(measured, {rows: np.ones((3, 2))})
    assert json.loads(found)["epochs"][0]["total_bytes_processed"] == 5 * 8


def test_bad_arguments_are_refused():
    with pytest.raises(tf.errors.OutOfRangeError, match="fewer elements than the benchmark reads"):
        dataset_benchmark.dataset_benchmark(DATASET, 1, 7)
    with pytest.raises(ValueError, match="number_of_epochs must be a positive integer"):
        dataset_benchmark.dataset_benchmark(DATASET, 0, 7)
    with pytest.raises(TypeError, match="dataset_benchmark: pass a tf.data.Dataset"):
        dataset_benchmark.dataset_benchmark([1], 1, 1)
    with pytest.raises(TypeError, match="infeed_benchmark: pass an IPUInfeedQueue"):
        dataset_benchmark.infeed_benchmark(DATASET, 1, 1)
