"""Runs traced functions: executables, the boundary, fusion, engines."""
