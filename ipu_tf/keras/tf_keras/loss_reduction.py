"""Losses of tf_keras that a script calls itself, under an IPU strategy."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf
import tf_keras

from ipu_tf.strategy import IPUStrategyV1

_Reduction = tf_keras.losses.Reduction
_MEANS = (_Reduction.AUTO, _Reduction.SUM_OVER_BATCH_SIZE)


def mean_of_one_replica(stock: Callable[..., str]) -> Callable[..., str]:
    """Makes losses give the mean over a batch where there is one replica.

    tf_keras refuses it under any strategy, because the sum over several replicas is no mean.
    """

    def get_reduction(loss: tf_keras.losses.Loss) -> str:
        strategy = tf.distribute.get_strategy()
        is_alone = isinstance(strategy, IPUStrategyV1) and strategy.num_replicas_in_sync == 1
        if is_alone and loss.reduction in _MEANS:
            return _Reduction.SUM_OVER_BATCH_SIZE
        return stock(loss)

    return get_reduction
