"""How the models of Keras run on a device: their pipelines, for the compiler and by its figures."""
