"""A random walk sampler on several replicas: nested loops, with an outfeed for each level."""

import tensorflow as tf
from tensorflow.python import ipu

REPLICAS, SAMPLES, STEPS = 4, 5, 3

cfg = ipu.config.IPUConfig()
cfg.auto_select_ipus = REPLICAS
cfg.configure_ipu_system()

tf.random.set_seed(1)
strategy = ipu.ipu_strategy.IPUStrategy()
samples = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
proposals = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
final = ipu.ipu_outfeed_queue.IPUOutfeedQueue(
    outfeed_mode=ipu.ipu_outfeed_queue.IPUOutfeedMode.LAST
)


def log_density(x):
    return -0.5 * tf.reduce_sum(x * x)


def step(x):
    proposal = x + tf.random.normal([2])
    proposals.enqueue(proposal)
    accepts = tf.math.log(tf.random.uniform([])) < log_density(proposal) - log_density(x)
    return tf.where(accepts, proposal, x)


@tf.function
def sample():
    index = ipu.ops.replication_ops.replication_index()

    def body(x):
        x = ipu.loops.repeat(STEPS, step, [x])
        mean = ipu.ops.cross_replica_ops.cross_replica_mean(x)
        samples.enqueue({"x": x, "mean": mean, "replica": index})
        final.enqueue(x)
        return x

    return ipu.loops.repeat(SAMPLES, body, [tf.zeros([2])])


with strategy.scope():
    strategy.run(sample)

drawn = samples.dequeue()
print("replicas", strategy.num_replicas)
print("samples", drawn["x"].shape, "proposals", proposals.dequeue().shape)
print("index", drawn["replica"][0].numpy().tolist())
error = tf.reduce_max(tf.abs(tf.reduce_mean(drawn["x"], 1) - drawn["mean"][:, 0]))
print("means agree", bool(error < 1e-6))
print("last agrees", bool(tf.reduce_all(final.dequeue() == drawn["x"][-1])))
