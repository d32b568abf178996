"""Cycles and memory of Poplar programs: their graphs, as arrays, become device programs."""
