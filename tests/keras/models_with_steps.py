"""Small models with steps of their own, written as scripts for Keras' TensorFlow backend are."""

import keras
import tensorflow as tf

from tests.keras.small_models import CLASSES, FEATURES

LATENT = 2


def seed_of(number):
    """Returns what `normal` draws by: with a state of its own in Keras 3, the same in Keras 2."""
    return keras.random.SeedGenerator(number) if hasattr(keras, "random") else number


def normal(shape, seed):
    """Returns random numbers of a normal distribution."""
    if hasattr(keras, "random"):
        return keras.random.normal(shape, seed=seed)
    return tf.random.stateless_normal(shape, [seed, 0])


def dense(units, inputs, activation=None, name=None):
    return keras.Sequential(
        [
            keras.Input((inputs,)),
            keras.layers.Dense(8, activation="relu"),
            keras.layers.Dense(units, activation=activation),
        ],
        name=name,
    )


class Sampling(keras.layers.Layer):
    """Draws from a normal distribution of mean and logarithmic variance."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.seed_generator = seed_of(5)

    def call(self, inputs):
        mean, log_variance = inputs
        noise = normal(tf.shape(mean), self.seed_generator)
        return mean + tf.exp(0.5 * log_variance) * noise


class VariationalAutoencoder(keras.Model):
    """It has no `call`, and metrics of its own."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        inputs = keras.Input((FEATURES,))
        hidden = keras.layers.Dense(8, activation="relu")(inputs)
        mean = keras.layers.Dense(LATENT)(hidden)
        log_variance = keras.layers.Dense(LATENT)(hidden)
        code = Sampling()([mean, log_variance])
        self.encoder = keras.Model(inputs, [mean, log_variance, code])
        self.decoder = dense(FEATURES, LATENT)
        self.loss_tracker = keras.metrics.Mean(name="loss")
        self.kl_tracker = keras.metrics.Mean(name="kl_loss")

    @property
    def metrics(self):
        return [self.loss_tracker, self.kl_tracker]

    def losses_of(self, data):
        mean, log_variance, code = self.encoder(data)
        error = tf.reduce_mean(tf.reduce_sum(tf.square(data - self.decoder(code)), axis=1))
        divergence = -0.5 * (1 + log_variance - tf.square(mean) - tf.exp(log_variance))
        divergence = tf.reduce_mean(tf.reduce_sum(divergence, axis=1))
        return error + divergence, divergence

    def logs(self, loss, divergence):
        self.loss_tracker.update_state(loss)
        self.kl_tracker.update_state(divergence)
        return {"loss": self.loss_tracker.result(), "kl_loss": self.kl_tracker.result()}

    def train_step(self, data):
        with tf.GradientTape() as tape:
            loss, divergence = self.losses_of(data)
        gradients = tape.gradient(loss, self.trainable_weights)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_weights, strict=True))
        return self.logs(loss, divergence)

    def test_step(self, data):
        return self.logs(*self.losses_of(data))

    def predict_step(self, data):
        mean, _, _ = self.encoder(data)
        return {"mean": mean, "again": self.decoder(mean)}


class AdversarialPair(keras.Model):
    """A generator and a discriminator with an optimizer each, and a gradient penalty."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.generator = dense(FEATURES, LATENT, name="generator")
        self.discriminator = dense(1, FEATURES, name="discriminator")
        self.seed_generator = seed_of(7)

    def compile(self, discriminator_optimizer, generator_optimizer, loss_fn, **kwargs):
        super().compile(**kwargs)
        self.optimizers_by_name = {"d": discriminator_optimizer, "g": generator_optimizer}
        self.loss_fn = loss_fn
        self.d_tracker = keras.metrics.Mean(name="d_loss")
        self.g_tracker = keras.metrics.Mean(name="g_loss")

    @property
    def metrics(self):
        return [self.d_tracker, self.g_tracker]

    def penalty(self, samples):
        with tf.GradientTape() as tape:
            tape.watch(samples)
            scores = self.discriminator(samples, training=True)
        norms = tf.sqrt(tf.reduce_sum(tf.square(tape.gradient(scores, samples)), axis=1) + 1e-6)
        return tf.reduce_mean(tf.square(norms - 1.0))

    def train_step(self, real):
        if isinstance(real, tuple):
            real = real[0]
        batch = tf.shape(real)[0]
        for _ in range(2):
            noise = normal((batch, LATENT), self.seed_generator)
            with tf.GradientTape() as tape:
                fake = self.generator(noise, training=True)
                scores = self.discriminator(tf.concat([fake, real], axis=0), training=True)
                labels = tf.concat([tf.ones((batch, 1)), tf.zeros((batch, 1))], axis=0)
                d_loss = self.loss_fn(labels, scores) + self.penalty((real + fake) / 2)
            weights = self.discriminator.trainable_weights
            gradients = tape.gradient(d_loss, weights)
            self.optimizers_by_name["d"].apply_gradients(zip(gradients, weights, strict=True))
        noise = normal((batch, LATENT), self.seed_generator)
        with tf.GradientTape() as tape:
            scores = self.discriminator(self.generator(noise, training=True), training=True)
            g_loss = self.loss_fn(tf.zeros((batch, 1)), scores)
        weights = self.generator.trainable_weights
        gradients = tape.gradient(g_loss, weights)
        self.optimizers_by_name["g"].apply_gradients(zip(gradients, weights, strict=True))
        self.d_tracker.update_state(d_loss)
        self.g_tracker.update_state(g_loss)
        return {"d_loss": self.d_tracker.result(), "g_loss": self.g_tracker.result()}


class Distiller(keras.Model):
    """A student that learns from a teacher; both are built by the first step alone."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.teacher = keras.Sequential([keras.layers.Dense(CLASSES, use_bias=False)])
        self.teacher.trainable = False
        self.student = keras.Sequential(
            [keras.layers.Dense(4, activation="relu"), keras.layers.Dense(CLASSES)]
        )
        self.divergence = keras.losses.KLDivergence()
        self.distillation_tracker = keras.metrics.Mean(name="distillation_loss")

    def train_step(self, data):
        x, y = data
        teacher = self.teacher(x, training=False)
        with tf.GradientTape() as tape:
            student = self.student(x, training=True)
            distillation = self.divergence(
                tf.nn.softmax(teacher / 3.0), tf.nn.softmax(student / 3.0)
            )
            loss = 0.3 * self.compute_loss(x, y, student) + 0.7 * distillation
        gradients = tape.gradient(loss, self.student.trainable_variables)
        self.optimizer.apply_gradients(
            zip(gradients, self.student.trainable_variables, strict=True)
        )
        self.distillation_tracker.update_state(distillation)
        return self.compute_metrics(x, y, student, None)

    def test_step(self, data):
        x, y = data
        predictions = self.student(x, training=False)
        self.compute_loss(y=y, y_pred=predictions)
        return self.compute_metrics(x, y, predictions, None)


def compiled(kind, **kwargs):
    """Returns a compiled model of one of the kinds of this module, from a fixed seed."""
    keras.utils.set_random_seed(7)
    return compile_kind(kind(), **kwargs)


def compile_kind(model, **kwargs):
    """Compiles a model of this module with optimizers that are made here."""
    if isinstance(model, AdversarialPair):
        model.compile(
            keras.optimizers.Adam(0.01),
            keras.optimizers.RMSprop(0.005),
            keras.losses.BinaryCrossentropy(from_logits=True),
            **kwargs,
        )
    elif isinstance(model, Distiller):
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(), loss, metrics=["accuracy"], **kwargs)
    else:
        model.compile(keras.optimizers.Adam(0.01), **kwargs)
    return model
