"""What any Keras lacks in a model's files: the IPU's options, whole files, exports for serving."""
