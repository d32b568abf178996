"""An activation with a trainable frequency, as a custom op in C++ for Poplar."""
