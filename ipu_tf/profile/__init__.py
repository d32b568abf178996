"""Reports of programs, as values to print, and spans of the host's time."""

from ipu_tf.profile.tracing import trace

__all__ = ["trace"]
