"""The queues of a pipeline."""

from __future__ import annotations

from dataclasses import dataclass

from ipu_tf.feeds.infeed_queue import IPUInfeedQueue
from ipu_tf.feeds.outfeed_queue import IPUOutfeedMode, IPUOutfeedQueue
from ipu_tf.internals.structures import SpecStructure, TensorStructure
from ipu_tf.pipelining.arguments import PipelineArguments


@dataclass(frozen=True, slots=True, kw_only=True)
class Feeds:
    """The queues of a pipeline.

    Attributes:
        infeed: Gives an element for every micro-batch; None for none.
        outfeed: Takes results; None for none.
    """

    infeed: IPUInfeedQueue | None
    outfeed: IPUOutfeedQueue | None

    @classmethod
    def checked(
        cls,
        infeed: IPUInfeedQueue | None,
        outfeed: IPUOutfeedQueue | None,
        arguments: PipelineArguments,
    ) -> Feeds:
        """Returns the queues.

        Raises:
            TypeError: One is of another type.
            ValueError: An outfeed is missing, or in a mode that keeps no sums.
        """
        for name, queue, kind in (
            ("infeed_queue", infeed, IPUInfeedQueue),
            ("outfeed_queue", outfeed, IPUOutfeedQueue),
        ):
            if queue is not None and not isinstance(queue, kind):
                raise TypeError(f"`{name}` must be an {kind.__name__}. Received: {queue!r}.")
        for option in ("accumulate_outfeed", "outfeed_loss"):
            if getattr(arguments, option) and outfeed is None:
                raise ValueError(f"An outfeed_queue must be provided when {option} is True.")
        mode = None if outfeed is None else outfeed.mode
        if arguments.accumulate_outfeed and mode is not IPUOutfeedMode.ALL:
            raise ValueError(
                f"To accumulate the outfeed, it must be in IPUOutfeedMode ALL. Received: {mode}."
            )
        return cls(infeed=infeed, outfeed=outfeed)

    @property
    def element_spec(self) -> SpecStructure:
        """Shapes and types of an element of the infeed, None without one."""
        return None if self.infeed is None else self.infeed.element_spec

    def dequeue(self) -> TensorStructure:
        """Returns the next element of the infeed, [] without one."""
        return [] if self.infeed is None else self.infeed.dequeue()

    def enqueue(self, results: TensorStructure) -> None:
        """Gives results to the outfeed, if there are any."""
        if results is not None and self.outfeed is not None:
            self.outfeed.enqueue(results)
