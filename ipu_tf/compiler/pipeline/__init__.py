"""Steps that are split over several IPUs, stage by stage.

`deploy` gives an instruction the stage of its layer (`assignment`), cuts the step into a
module for each stage (`split`), finds the values that wait between passes (`fifo`), compiles every
stage for its IPU, moves offloaded variables off its tiles (`off_chip`, `residence`), and plays the
schedule (`schedule`, `timeline`). `balance` chooses where to cut, and `search` compiles every way
to train within bounds (`search_bounds`) and ranks them (`candidate`).

Models stages in lockstep; labels and other inputs go from the host to the stage that reads them.
Does not model the copies into and out of FIFOs, nor the zeroing of accumulators.
"""
