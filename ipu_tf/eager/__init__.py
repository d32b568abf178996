"""Tapes, under the module names that scripts use."""
