"""The interface of TensorFlow 1 for scripts that `ipu-tf run --tf1` runs."""
