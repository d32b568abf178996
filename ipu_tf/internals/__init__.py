"""The one door to the internals of TensorFlow and Keras: all that ipu_tf uses and is not public.

* `tensorflow`, `keras`: private names and attributes, each with its reason;
* `patches`: the methods that are replaced for a while.

A test over the syntax tree keeps the rest of the package from them. Nothing is imported here.
"""
