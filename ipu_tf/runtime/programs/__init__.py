"""Compiles traced functions to device programs, and keeps them for reports."""
