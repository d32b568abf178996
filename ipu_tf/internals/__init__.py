"""The one door to the internals of other libraries: all that ipu_tf uses and is not public.

* `tensorflow`, `keras`: private names, each with its reason;
* `keras_layers`, `keras_graphs`, `keras_training`, `keras_optimizers`: private attributes of Keras'
  objects;
* `graphs`, `autograph`: what TensorFlow knows of graphs, and of the conversion of functions;
* `keras_outputs`: the calls by which Keras builds a model's loss and metrics;
* `deferred_modules`: modules that Keras imports and that are loaded at their first use;
* `keras_downloads`: Keras' download function, wherever it has been imported to;
* `working_threads`: what Python and the system know of the threads of the process;
* `command_line`: what `argparse` knows of a parser;
* `patches`: the methods that are replaced for a while.

A test over the syntax tree keeps the rest of the package from them. Nothing is imported here.
"""
