"""tf_keras, which is Keras 2, behind the adapters."""
