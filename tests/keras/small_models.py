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
        # Of one seed each: either Keras draws the same weights whenever it builds them.
        self.hidden, self.head = (
            keras.layers.Dense(
                size, activation, kernel_initializer=keras.initializers.GlorotUniform(size)
            )
            for size, activation in ((units, "relu"), (CLASSES, None))
        )

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


def loss_scaling_of(optimizer):
    """Returns the factor of a `LossScaleOptimizer`, and the updates since it grew."""
    is_of_keras_3 = hasattr(optimizer, "dynamic_scale")
    names = (
        ("dynamic_scale", "step_counter") if is_of_keras_3 else ("loss_scale", "dynamic_counter")
    )
    scale, updates = (getattr(optimizer, name) for name in names)
    return float(scale), int(updates)
