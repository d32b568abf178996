"""Reads the route of messages between IPUs from a record."""

from __future__ import annotations

from typing import cast

from ipu_tf.calibration.params import says, whole
from ipu_tf.calibration.records import MeasuredPoint
from ipu_tf.machine.links import Route, route
from ipu_tf.machine.system import system_of

_OTHER_BOARD = ("offboard", "off board", "across boards", "different board", "between boards")
_NOT_NEXT = ("indirect", "no direct", "not direct", "not connected directly", "multi hop")


def route_of(record: MeasuredPoint) -> Route:
    """Returns the route between the IPUs of a record.

    By their numbers where it gives them ("source_ipu", "dest_ipu"), by its number of hops, else by
    its words: on one board, on two that are neighbours, or on two that are not directly linked.
    """
    if "source_ipu" in record.params and "dest_ipu" in record.params:
        system = system_of(record.chip.lower(), record.n_ipus)
        source, destination = (
            int(cast("int", record.params[end])) for end in ("source_ipu", "dest_ipu")
        )
        return route(system, source, destination)
    if "hops" in record.params:
        return Route(rail_hops=whole(record, "hops"))
    if says(record, *_NOT_NEXT):
        return Route(rail_hops=1, crosses_board=True)
    if says(record, *_OTHER_BOARD):
        return Route(rail_hops=1)
    # More than a board's two: the farthest is at the other end of the rails.
    boards = -(-record.n_ipus // 2)
    return Route(rail_hops=boards - 1, crosses_board=True)
