"""Passes over loops: trip counts, state, parts without readers."""
