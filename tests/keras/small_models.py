"""Small models of every kind for the tests of Keras in the scope."""

import keras

FEATURES = 6
CLASSES = 3


@keras.saving.register_keras_serializable("ipu_tf_tests")
class Net(keras.Model):
    """A subclassed model, built at its first call."""

    def __init__(self, units=8, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.hidden = keras.layers.Dense(units, activation="relu")
        self.head = keras.layers.Dense(CLASSES)

    def call(self, inputs):
        return self.head(self.hidden(inputs))

    def get_config(self):
        return {**super().get_config(), "units": self.units}


def sequential():
    return keras.Sequential(
        [
            keras.Input((FEATURES,)),
            keras.layers.Dense(8, activation="relu"),
            keras.layers.Dense(CLASSES),
        ]
    )


def functional():
    inputs = keras.Input((FEATURES,))
    hidden = keras.layers.Dense(8, activation="relu")(inputs)
    return keras.Model(inputs, keras.layers.Dense(CLASSES)(hidden))


KINDS = {"sequential": sequential, "functional": functional, "subclass": Net}


def compile_model(model, **kwargs):
    kwargs = {
        "optimizer": keras.optimizers.SGD(0.1, momentum=0.9),
        "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        "metrics": ["accuracy"],
    } | kwargs
    model.compile(**kwargs)
    return model
