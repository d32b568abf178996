"""The infeed's names, under the module name that scripts use."""

from ipu_tf.feeds.infeed_queue import IPUInfeedQueue
from ipu_tf.feeds.iterator import IPUIterator, IPUOwnedIterator

__all__ = ["IPUInfeedQueue", "IPUIterator", "IPUOwnedIterator"]
