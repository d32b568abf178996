"""What programs ran, as values to print."""
