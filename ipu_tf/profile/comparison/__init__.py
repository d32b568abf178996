"""Comparisons of two reports, as values, text and pages."""
