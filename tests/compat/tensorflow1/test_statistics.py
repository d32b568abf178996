"""Scripts with statistics of input pipelines run, and their summaries are empty."""

import logging

import pytest
import tensorflow as tf

from ipu_tf.compat.tensorflow1.statistics import statistics_are_empty


def test_an_aggregator_has_an_empty_summary_and_says_so(caplog):
    with statistics_are_empty(), caplog.at_level(logging.WARNING):
        aggregator = tf.data.experimental.StatsAggregator()
        dataset = tf.data.Dataset.range(3).apply(tf.data.experimental.latency_stats("latency"))
        options = tf.data.Options()
        options.experimental_stats.aggregator = aggregator
        dataset = dataset.with_options(options)
        assert [int(one) for one in dataset] == [0, 1, 2]
        summary = tf.compat.v1.Summary.FromString(aggregator.get_summary().numpy())
    assert not summary.value
    assert "keeps no statistics of input pipelines any more" in caplog.text
    with pytest.raises(AttributeError):
        tf.data.experimental.StatsAggregator()
