"""The infeed's names, under the module name that scripts use."""

from ipu_tf.feeds.infeed_queue import IPUInfeedQueue

__all__ = ["IPUInfeedQueue"]
