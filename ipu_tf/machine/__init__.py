"""The simulated machine: chips, memory and the cost of each step of a tile program.

No module in here depends on TensorFlow, Keras or a compiler.

| module | what it models |
|---|---|
| `target`, `system`, `link_timing`, `exchange_timing` | chips, systems, and the constants of both |
| `cost`, `superstep` | cycles by kind; one step of a program |
| `exchange`, `sync` | exchange phases on a chip; synchronisation |
| `links`, `link_traffic` | between IPUs: one route or a ring; all that send at once |
| `host`, `streaming` | to the host, to memory beside the IPUs |
| `workers`, `tile_memory` | the workers of a tile; its regions and rates |
| `contractions`, `vertices` | vertices of products, and all others |
"""

from ipu_tf.machine.exchange_timing import ExchangeTiming
from ipu_tf.machine.link_timing import HostTiming, LinkTiming, StreamingTiming
from ipu_tf.machine.system import SYSTEMS, System, system, system_of
from ipu_tf.machine.target import CHIPS, Target, target

__all__ = [
    "CHIPS",
    "SYSTEMS",
    "ExchangeTiming",
    "HostTiming",
    "LinkTiming",
    "StreamingTiming",
    "System",
    "Target",
    "system",
    "system_of",
    "target",
]
