"""Reports as files of data: JSON and CSV."""
