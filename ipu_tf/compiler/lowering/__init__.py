"""From instructions to supersteps: one rule for every kind of opcode."""
