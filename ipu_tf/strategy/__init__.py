"""The tf.distribute strategy of an IPU system: scope, run, reduce, report."""

from ipu_tf.strategy.strategy import IPUStrategy, IPUStrategyV1, extend_scopes

__all__ = ["IPUStrategy", "IPUStrategyV1", "extend_scopes"]
