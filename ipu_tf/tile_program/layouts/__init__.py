"""Layouts, which are named by their blocks, and placements of tensors on tiles."""
