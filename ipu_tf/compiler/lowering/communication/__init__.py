"""Lowering of transfers between replicas, and between host and device."""
