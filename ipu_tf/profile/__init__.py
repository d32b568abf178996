"""Reports of programs, as values to print."""
