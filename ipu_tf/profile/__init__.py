"""Reports of programs, as values to print and compare, and spans of the host's time."""

from ipu_tf.profile.comparison.report_comparison import ReportComparison, compare
from ipu_tf.profile.tracing import trace

__all__ = ["ReportComparison", "compare", "trace"]
