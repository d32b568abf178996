"""The programs of one step: Keras' own, a user's, and those of accumulation and replicas."""
