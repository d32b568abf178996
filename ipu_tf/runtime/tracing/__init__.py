"""Creates tile ops while a function is traced."""
