"""The part of a model's files that stock Keras does not write: options and random states."""
