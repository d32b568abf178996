"""Traces of reports for viewers: slices of the device and of the host, encoded as files."""
