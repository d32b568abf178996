"""Cycles of synchronisation: of the tiles of a chip, of chips, of machines.

Models a sync that starts when the slowest tile arrives. Does not model tiles that need not take
part.
"""

from __future__ import annotations

from ipu_tf.machine.system import System
from ipu_tf.machine.target import Target

_LINK_HOP_SECONDS = 15e-9
"""A hop of the sync line between IPUs (poplibs' test model of its target, 15 ns)."""

_GATEWAY_SECONDS = 1e-6
"""A sync through the gateways of a rack, there and back. Modelled: two passes over Ethernet."""


def on_chip_cycles(target: Target) -> int:
    """Returns the cycles of a sync of all tiles of one IPU."""
    return target.sync_cycles


def cross_ipu_cycles(system: System, ipus: int) -> int:
    """Returns the cycles of a sync of the first `ipus` IPUs of a system, tiles included.

    The line of IPUs folds back, so the farthest is a quarter of them away, there and back.

    Raises:
        ValueError: The system does not have that many IPUs.
    """
    system.check_ipus(ipus)
    if ipus == 1:
        return on_chip_cycles(system.target)
    within = min(ipus, system.ipus_per_link_domain)
    hops = 2 * (1 + within // 4)
    domains = -(-ipus // system.ipus_per_link_domain)
    seconds = hops * _LINK_HOP_SECONDS + (_GATEWAY_SECONDS if domains > 1 else 0.0)
    return on_chip_cycles(system.target) + round(seconds * system.target.clock_hz)
