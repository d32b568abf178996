"""Samples a network's weights in a session, one chain on each IPU, as scripts of 2019 do."""

import sys

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from tensorflow.python.ipu import ipu_compiler, utils
from tensorflow.python.ipu.config import IPUConfig
from tensorflow.python.ipu.scopes import ipu_scope

IPUS, RESULTS, BURNIN, INPUTS, UNITS = int(sys.argv[1]), 40, 20, 4, 3
SIZE = INPUTS * UNITS + UNITS

rng = np.random.default_rng(0)
X = rng.normal(size=(32, INPUTS)).astype("f")
Y = np.tanh(X[:, 0]) + 0.1 * rng.standard_t(2.2, size=32).astype("f")


def log_density(weights):
    hidden = tf.tanh(X @ tf.reshape(weights[UNITS:], [INPUTS, UNITS]))
    found = tf.squeeze(hidden @ tf.expand_dims(weights[:UNITS], -1), -1)
    prior = tfp.distributions.Normal(tf.zeros([SIZE]), 2.0)
    likelihood = tfp.distributions.StudentT(2.2, found, 0.3)
    return tf.reduce_sum(prior.log_prob(weights)) + tf.reduce_sum(likelihood.log_prob(Y))


def chain(name):
    with tf.variable_scope(name, use_resource=True, reuse=tf.AUTO_REUSE):
        step_size = tf.get_variable("step_size", initializer=tf.constant(0.01), trainable=False)

        def sample():
            kernel = tfp.mcmc.HamiltonianMonteCarlo(
                log_density,
                step_size=step_size,
                num_leapfrog_steps=3,
                step_size_update_fn=tfp.mcmc.make_simple_step_size_update_policy(
                    num_adaptation_steps=BURNIN, increment_multiplier=0.1
                ),
            )
            return tfp.mcmc.sample_chain(
                RESULTS,
                [tf.zeros([SIZE])],
                kernel=kernel,
                num_burnin_steps=BURNIN,
                trace_fn=lambda state, results: results.extra.step_size_assign,
            )

        (states,), step_sizes = ipu_compiler.compile(sample, [])
    return states, step_sizes


tf.set_random_seed(1)
chains = []
for index in range(IPUS):
    with ipu_scope(f"/device:IPU:{index}"):
        chains.append(chain(f"chain{index}"))
config = IPUConfig()
config.auto_select_ipus = [1] * IPUS
config.configure_ipu_system()
utils.move_variable_initialization_to_cpu()
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    states, step_sizes = (np.stack(parts) for parts in zip(*session.run(chains), strict=True))
print("states", states.shape)
print("moved", (np.diff(states, axis=1) != 0).any((1, 2)).all())
print("apart", len(np.unique(states[:, -1, 0])))
print("step size", step_sizes.min(), step_sizes.max())
