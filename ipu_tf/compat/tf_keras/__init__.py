"""Keras 2 by tf_keras for scripts, and for the packages that they import.

`import keras`, `from tensorflow import keras` and `tf.keras` there mean tf_keras, with the names
and habits of Keras 2.6 where those of 2.15, which tf_keras is, differ. ipu_tf keeps Keras 3.
"""
