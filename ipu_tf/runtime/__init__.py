"""Traces functions into programs: tile ops for the numbers, one executable per function."""
