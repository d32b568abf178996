"""Machines of one's own, for tests of what takes a machine."""

import dataclasses

from ipu_tf.machine import CHIPS, SYSTEMS, ExchangeTiming

LARGE = dataclasses.replace(
    CHIPS["gc200"],
    tiles=2 * 1472,
    tile_bytes=2 * 624 * 1024,
    exchange=ExchangeTiming(columns_per_side=16, islands_per_column=23),
)
"""A GC200 with twice the tiles and twice the memory of each."""

ALONE = dataclasses.replace(CHIPS["gc200"], chip="own", tiles=37)
"""A chip of a new name: no system is known of it."""

PAIR = dataclasses.replace(
    SYSTEMS["m2000"], name="own pair", target=ALONE, ipus=2, ipus_per_link_domain=2
)
"""Two of them, joined as in an M2000."""
