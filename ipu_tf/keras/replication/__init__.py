"""Replicas, and the accumulation of gradients over micro-batches and replicas."""
