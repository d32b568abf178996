"""The cycles of a call from the host, which runs a program several times in a loop on the device.

A call costs the latency of the host's link, there and back, however many runs it makes; the loop
costs its counter and its condition, which this module compiles as any other loop. Does not model
data that the host prepares while the device runs.
"""

from __future__ import annotations

import functools

from ipu_tf.compiler.assembly import build_program
from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.hlo import parse
from ipu_tf.machine.target import Target
from ipu_tf.tile_program.device_program import DeviceProgram

_CACHED_LOOPS = 64

_LOOP = """module call

body {{
  state = (s32[]) parameter(0)
  runs_done = s32[] get-tuple-element(state), tuple_index=0
  one = s32[] constant(1)
  more = s32[] add(runs_done, one)
  ROOT next = (s32[]) tuple(more)
}}

condition {{
  tested = (s32[]) parameter(0)
  counter = s32[] get-tuple-element(tested), tuple_index=0
  runs = s32[] constant({runs})
  ROOT is_less = pred[] compare(counter, runs), comparison_direction="LT"
}}

ENTRY main {{
  zero = s32[] constant(0)
  start = (s32[]) tuple(zero)
  ROOT loop = (s32[]) while(start), calls={{body, condition}}, trip_count={runs}
}}
"""


def call_cycles(program: DeviceProgram, runs: int) -> int:
    """Returns the cycles from a call of the host until it has the results of all runs.

    Args:
        program: The program that the loop runs.
        runs: How often the loop runs it.

    Raises:
        ValueError: There are no runs.
    """
    if runs < 1:
        raise ValueError(f"A call must run its program at least once. Received: runs={runs}.")
    return program.round_trip_cycles + _loop_cycles(program.target, runs) + runs * program.cycles


@functools.lru_cache(maxsize=_CACHED_LOOPS)
def _loop_cycles(target: Target, runs: int) -> int:
    """Returns the cycles of a loop around nothing; a single run needs none."""
    if runs == 1:
        return 0
    module = parse(_LOOP.format(runs=runs))
    loop = build_program(module, options=CompilerOptions(target=target), plans={})
    return sum(step.cycles for step in loop.steps)
