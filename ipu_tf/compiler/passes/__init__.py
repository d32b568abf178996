"""Rewrites of modules: one pass a file, each a pure function `run(module) -> module`."""
