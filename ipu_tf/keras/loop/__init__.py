"""The training loop: Keras' methods, and the functions that run executions on the device."""
