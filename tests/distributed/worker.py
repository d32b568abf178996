"""What an instance does in tests of jobs: `python -m tests.distributed.worker CASE`.

Instance 0 prints a line "RESULT ..." that is to be the same for any number of instances.
"""

import hashlib
import os
import pathlib
import resource
import signal
import sys
import time
import warnings

import keras
import numpy as np
import tensorflow as tf

from ipu_tf import IPUConfig, distributed, ipu_compiler, loops, pipelining, scopes
from ipu_tf.base import codec
from ipu_tf.compat import popdist
from ipu_tf.compat.popdist import tensorflow as popdist_tensorflow
from ipu_tf.compiler import compile
from ipu_tf.distributed.popdist_strategy import PopDistStrategy
from ipu_tf.distributed.shares import share_of
from ipu_tf.ipu_infeed_queue import IPUInfeedQueue
from ipu_tf.ipu_outfeed_queue import IPUOutfeedQueue
from ipu_tf.ops import all_to_all_op, cross_replica_ops, reduce_scatter_op, replication_ops
from ipu_tf.optimizers.gradient_accumulation_optimizer import (
    CrossReplicaGradientAccumulationOptimizerV2,
)
from ipu_tf.processes.instances import instances
from ipu_tf.tile_program.tile_details import detailed

JOB = instances()
V1 = tf.compat.v1


def tell(line):
    """Prints a line in one write, so that no other instance's line begins before its end."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def configure(batch_norm_group=1):
    config = IPUConfig()
    config.norms.experimental.distributed_batch_norm_replica_group_size = batch_norm_group
    popdist_tensorflow.set_ipu_config(config, JOB.ipus_per_replica)
    assert config.auto_select_ipus == JOB.local_replicas * JOB.ipus_per_replica
    config.configure_ipu_system()


def strategy_of_job(batch_norm_group=1):
    configure(batch_norm_group)
    return PopDistStrategy()


def publish(*values):
    digest = hashlib.sha256(b"".join(np.asarray(value).tobytes() for value in values))
    if JOB.index == 0:
        tell(f"RESULT {digest.hexdigest()[:16]} {np.asarray(values[0]).ravel()[:3]}")


def host():
    popdist.init()
    assert (popdist.getNumInstances(), popdist.getInstanceIndex()) == (JOB.count, JOB.index)
    assert popdist.getNumTotalReplicas() == JOB.total_replicas
    assert popdist.execute_on_instances({1}, int, "7") == (7 if JOB.index == 1 else None)
    popdist.synchronize()
    index = float(JOB.index)
    assert distributed.allreduce(index + 1, "SUM").numpy() == 3
    assert distributed.allreduce(tf.constant([index], tf.float16), "MEAN").numpy() == [0.5]
    assert distributed.allgather([[index]]).numpy().tolist() == [[0], [1]]
    assert distributed.allgather(tf.range(JOB.index + 1)).numpy().tolist() == [0, 0, 1]
    assert distributed.allgather(index).numpy().tolist() == [0, 1]
    assert distributed.broadcast(index, root_rank=1).numpy() == 1
    assert distributed.broadcast(f"instance {JOB.index}").numpy() == b"instance 0"

    @tf.function
    def in_a_graph(x):
        return distributed.allreduce(x, "SUM") + distributed.broadcast(x, 1)

    assert in_a_graph(tf.constant([index])).numpy() == [2]
    strategy = strategy_of_job()
    assert strategy.num_replicas_in_sync == JOB.total_replicas
    assert strategy.reduce("SUM", tf.constant(2.0), axis=None).numpy() == 4
    with strategy.scope():
        assert tf.Variable(index + 1).numpy() == 1
        reduced_when_read(index)
    shared = strategy.experimental_distribute_dataset(tf.data.Dataset.range(8))
    assert [int(number) for number in shared] == [[0, 1, 4, 5], [2, 3, 6, 7]][JOB.index]
    with_dataset = strategy.distribute_datasets_from_function(
        lambda context: tf.data.Dataset.range(
            context.input_pipeline_id, 8, context.num_input_pipelines
        ).batch(context.get_per_replica_batch_size(JOB.total_replicas))
    )
    assert [*with_dataset.unbatch().as_numpy_iterator()] == [*range(JOB.index, 8, 2)]
    publish(0)


def reduced_when_read(index):
    def variable(aggregation):
        return tf.Variable(
            index + 5, synchronization=tf.VariableSynchronization.ON_READ, aggregation=aggregation
        )

    mean = variable(tf.VariableAggregation.MEAN)
    assert mean.numpy() == 5
    mean.assign(index + 2)
    assert (mean.numpy(), (mean + 1).numpy()) == (2.5, 3.5)
    mean.assign_add(1.0)
    assert tf.function(lambda: mean * 2)().numpy() == 7
    total = variable(tf.VariableAggregation.SUM)
    total.assign(index + 2)
    assert total.read_value().numpy() == 5
    first = variable(tf.VariableAggregation.ONLY_FIRST_REPLICA)
    first.assign(index + 2)
    assert first.numpy() == 2
    assert tf.distribute.get_strategy().run(tf.function(lambda: mean + 0)).numpy() == index + 3


def collectives():
    strategy = strategy_of_job()
    total = JOB.total_replicas
    values = np.random.default_rng(1).normal(size=(total, 2 * total, 3)).astype(np.float32)
    values[:, 0] *= 1e6

    @tf.function
    def program():
        x = tf.constant(values)[replication_ops.replication_index()]
        tiny = cross_replica_ops.cross_replica_sum(tf.cast(x, tf.float16))
        found = [
            cross_replica_ops.cross_replica_sum(x),
            cross_replica_ops.cross_replica_mean(x * x),
            tf.cast(tiny, tf.float32),
            cross_replica_ops.cross_replica_sum(x, replica_group_size=2),
            all_to_all_op.all_to_all(x, 0, 0, total),
            reduce_scatter_op.reduce_scatter(tf.reshape(x, [-1]), total),
            tf.random.normal([3]),
        ]
        found = tf.concat([tf.reshape(one, [-1]) for one in found], 0)
        return all_to_all_op.all_gather(found, total), tf.reduce_sum(
            all_to_all_op.all_gather(replication_ops.replication_index(), total)
        )

    tf.random.set_seed(3)
    for _ in range(2):
        found, numbers = strategy.run(program)
        assert numbers.numpy() == sum(range(total))
    publish(found)


def in_the_background():
    """A sum for which instance 0 waits, while it computes what does not depend on it."""
    strategy, seconds = strategy_of_job(), 4.0
    x = tf.constant(np.random.default_rng(1).random((512, 512)), tf.float32)

    @tf.function
    def program(count):
        total, product = cross_replica_ops.cross_replica_sum(x), x
        for _ in tf.range(count):
            product = tf.matmul(product, x) * 1e-3
        return total[0, 0], product[0, 0]

    def took(count, *, late=0.0):
        popdist.synchronize()
        start = time.monotonic()
        time.sleep(late if JOB.index else 0.0)
        strategy.run(program, args=(tf.constant(count),))
        return time.monotonic() - start

    took(8)
    count = max(8, int(64 * seconds / took(64)))
    count = int(distributed.broadcast(count).numpy())
    alone, together = took(count), took(count, late=seconds)
    tell(f"SECONDS of {JOB.index} {alone:.2f} {together:.2f} {seconds}")


def steps():
    """Training by `strategy.run`, with dropout and an optimizer that sums gradients."""
    keras.utils.set_random_seed(1 + JOB.index)
    strategy = strategy_of_job()
    total = JOB.total_replicas
    rng = np.random.default_rng(1)
    x = rng.normal(size=(total, 8, 4)).astype(np.float32)
    with strategy.scope():
        keras.utils.set_random_seed(1)
        layers = [keras.layers.Dense(8, activation="relu"), keras.layers.Dropout(0.5)]
        model = keras.Sequential([*layers, keras.layers.Dense(1)])
        model.build((8, 4))
        optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
        optimizer.build(model.trainable_variables)

    @tf.function
    def step():
        batch = tf.constant(x)[replication_ops.replication_index()]
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(batch, training=True) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    for _ in range(3):
        strategy.run(step)
    publish(*model.get_weights()[:4])


def data(steps, accumulation, shape=(6, 6, 2)):
    """Returns the batches of this instance; replica r takes those that one process would give."""
    rng = np.random.default_rng(7)
    count = JOB.total_replicas * steps * accumulation
    x = rng.normal(size=(count, 4, *shape)).astype(np.float32)
    y = rng.integers(0, 3, size=(count, 4)).astype(np.int32)
    return share_of(tf.data.Dataset.from_tensor_slices((x, y)), JOB)


def trained(accumulation, batch_norm_group=1, epochs=2, **how):
    strategy = strategy_of_job(batch_norm_group)
    with strategy.scope():
        keras.utils.set_random_seed(1)
        model = keras.Sequential(
            [
                keras.Input((6, 6, 2), batch_size=4),
                keras.layers.Conv2D(4, 3),
                keras.layers.BatchNormalization(),
                keras.layers.ReLU(),
                keras.layers.Dropout(0.3, seed=5),
                keras.layers.Flatten(),
                keras.layers.Dense(3),
            ]
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(
            keras.optimizers.SGD(0.05, momentum=0.9),
            loss,
            metrics=["accuracy"],
            steps_per_execution=2 * accumulation,
        )
        if accumulation > 1:
            model.set_gradient_accumulation_options(
                gradient_accumulation_steps_per_replica=accumulation
            )
        how = {"epochs": epochs, "shuffle": False, "verbose": 0} | how
        logs = model.fit(data(4, accumulation), **how).history
    return model, logs


def fit():
    """Training, evaluation and prediction; each instance predicts its own data."""
    model, logs = trained(1)
    evaluated = model.evaluate(data(2, 1), verbose=0, return_dict=True)
    outputs = model.predict(data(2, 1), verbose=0)
    outputs = np.swapaxes(outputs.reshape(2, JOB.local_replicas, 4, 3), 0, 1)
    values = [*logs["loss"], *logs["accuracy"], *evaluated.values()]
    weights = [weight.numpy() for weight in model.trainable_weights]
    publish(*weights, values, distributed.allgather(outputs))
    tell(f"LOGS of {JOB.index} {values}")


def compiled_once():
    """Training; the number of programs that all instances have compiled."""
    count, compiled = [0], compile.compile_simplified

    def counting(*args, **kwargs):
        count[0] += 1
        return compiled(*args, **kwargs)

    compile.compile_simplified = counting
    model, _ = trained(1)
    report = model.distribute_strategy.report(insights=False)
    devices = [codec.encode(detailed(program.device)) for program in report.programs]
    digest = hashlib.sha256(repr(devices).encode()).hexdigest()
    tell(f"COMPILED {count[0]} of {digest}")


def fit_accumulating():
    model, _ = trained(3)
    publish(*[weight.numpy() for weight in model.trainable_weights])


def fit_by_own_step():
    class Own(keras.Sequential):
        def train_step(self, batch):
            x, y = batch
            with tf.GradientTape() as tape:
                loss = self.compute_loss(y=y, y_pred=self(x, training=True))
            gradients = tape.gradient(loss, self.trainable_weights)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_weights, strict=True))
            return {"loss": loss}

    with strategy_of_job().scope():
        keras.utils.set_random_seed(1)
        layers = [keras.layers.Flatten(), keras.layers.Dense(3)]
        model = Own([keras.Input((6, 6, 2), batch_size=4), *layers])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(0.05, momentum=0.9), loss, steps_per_execution=4)
        model.set_gradient_accumulation_options(gradient_accumulation_steps_per_replica=2)
        logs = model.fit(data(4, 2), epochs=2, shuffle=False, verbose=0).history
    publish(*[weight.numpy() for weight in model.trainable_weights], logs["loss"])


def fit_in_groups(replicas=2):
    model, logs = trained(2, batch_norm_group=replicas)
    evaluated = model.evaluate(data(2, 1), verbose=0, return_dict=True)
    weights = [weight.numpy() for weight in model.trainable_weights]
    publish(*weights, [*logs["loss"], *logs["accuracy"], *evaluated.values()])


def fit_as_a_group():
    fit_in_groups(replicas=4)


def resumed():
    """Training that may be killed and resumed; an instance writes files with its number."""
    folder = pathlib.Path(sys.argv[2])
    # Of Keras' files, with a newer NumPy.
    warnings.filterwarnings("ignore", "__array__ implementation doesn't accept a copy")
    log = keras.callbacks.CSVLogger(folder / f"{JOB.index}.csv", append=True)
    checkpoint = keras.callbacks.ModelCheckpoint(folder / f"{JOB.index}.keras")
    backup = keras.callbacks.BackupAndRestore(folder / "backup", delete_checkpoint=False)

    class Killed(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            self.is_last = epoch == 2

        def on_train_batch_end(self, batch, logs=None):
            if self.is_last and JOB.index == 1 and os.environ.get("KILLED"):
                os.kill(os.getpid(), signal.SIGKILL)

    callbacks = [log, checkpoint, backup, Killed()]
    model, _ = trained(1, epochs=4, verbose=2, callbacks=callbacks)
    publish(*[weight.numpy() for weight in model.trainable_weights])


def fit_in_stages():
    strategy = strategy_of_job()
    with strategy.scope():
        keras.utils.set_random_seed(1)
        layers = [keras.layers.Dense(8), keras.layers.Dropout(0.5), keras.layers.Dense(3)]
        model = keras.Sequential([keras.Input((5,), batch_size=4), *layers])
        model.set_pipeline_stage_assignment([0, 1, 1])
        model.set_pipelining_options(gradient_accumulation_steps_per_replica=4)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(0.05, momentum=0.9), loss, steps_per_execution=8)
        model.fit(data(2, 4, (5,)), epochs=2, shuffle=False, verbose=0)
    publish(*[weight.numpy() for weight in model.trainable_weights])


def weights_in_scope(strategy):
    rng = np.random.default_rng(3)
    with strategy.scope():
        return [tf.Variable(rng.normal(size=shape), dtype=tf.float32) for shape in ((5, 8), (8, 3))]


def hidden(x, weight):
    return tf.nn.dropout(tf.matmul(x, weight), 0.5)


def loss_of(hidden, weight, y):
    logits = tf.matmul(hidden, weight)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))


def stages():
    """A pipeline of functions, with dropout in a stage."""
    tf.random.set_seed(3)
    strategy = strategy_of_job()
    first, last = weights_in_scope(strategy)
    infeed = IPUInfeedQueue(data(2, 4, (5,)).repeat())
    optimizer = V1.train.MomentumOptimizer(0.1, 0.9)

    @tf.function
    def train():
        pipelining.pipeline(
            [lambda x, y: (hidden(x, first), y), lambda x, y: loss_of(x, last, y)],
            4,
            repeat_count=2,
            infeed_queue=infeed,
            optimizer_function=lambda loss: pipelining.OptimizerFunctionOutput(optimizer, loss),
            outfeed_queue=IPUOutfeedQueue(),
            outfeed_loss=True,
        )

    strategy.run(train)
    publish(first.numpy(), last.numpy())


def summing_optimizer():
    """An optimizer that sums gradients over micro-batches and replicas."""
    return CrossReplicaGradientAccumulationOptimizerV2(V1.train.MomentumOptimizer(0.1, 0.9), 2)


def loop_over(infeed, first, last, optimizer):
    """Trains in a loop."""

    def body(total, x, y):
        loss = loss_of(hidden(x, first), last, y)
        with tf.control_dependencies([optimizer.minimize(loss, var_list=[first, last])]):
            return total + loss

    return loops.repeat(6, body, [tf.constant(0.0)], infeed)


def loop(jit_compile=None):
    tf.random.set_seed(3)
    strategy = strategy_of_job()
    first, last = weights_in_scope(strategy)
    infeed = IPUInfeedQueue(data(3, 2, (5,)))
    optimizer = summing_optimizer()
    train = tf.function(lambda: loop_over(infeed, first, last, optimizer), jit_compile=jit_compile)
    strategy.run(train)
    publish(first.numpy(), last.numpy())


def jitted_loop():
    loop(jit_compile=True)


def session():
    """The same in a graph of TensorFlow 1, by `ipu_compiler`."""
    V1.disable_eager_execution()
    V1.set_random_seed(3)
    strategy = strategy_of_job()
    infeed = IPUInfeedQueue(data(3, 2, (5,)))
    rng = np.random.default_rng(3)
    with strategy.scope(), scopes.ipu_scope("/device:IPU:0"):
        first, last = (
            V1.get_variable(name, initializer=rng.normal(size=shape).astype(np.float32))
            for name, shape in (("first", (5, 8)), ("last", (8, 3)))
        )
        train = ipu_compiler.compile(
            lambda: loop_over(infeed, first, last, summing_optimizer()), []
        )
    with V1.Session() as opened:
        opened.run([V1.global_variables_initializer(), infeed.initializer])
        opened.run(train)
        publish(*opened.run([first, last]))


def full_disk():
    """Training whose instance 0 may not write files."""
    folder = pathlib.Path(sys.argv[2])
    model = small_model()
    if JOB.index == 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
    checkpoint = keras.callbacks.ModelCheckpoint(folder / "model.keras")
    model.fit(*rows(4), batch_size=2, epochs=3, callbacks=[checkpoint], verbose=0)


def resumes_alone():
    model = small_model()
    if JOB.index == 0:
        model.optimizer.iterations.assign(5)
    model.fit(*rows(4), batch_size=2, verbose=0)


def unequal():
    small_model().fit(*unequal_rows(), batch_size=2, verbose=0)


def unequal_evaluation():
    small_model().evaluate(*unequal_rows(), batch_size=2, verbose=0)


def unequal_validation():
    own = rows(2 * JOB.local_replicas)
    small_model().fit(*own, batch_size=2, validation_data=unequal_rows(), verbose=0)


def unequal_rows():
    return rows(2 * JOB.local_replicas * (3 + JOB.index))


def own_train_step():
    class Own(keras.Sequential):
        def train_step(self, batch):
            return {"loss": tf.constant(0.0)}

    strategy = strategy_of_job()
    with strategy.scope():
        model = Own([keras.Input((2,), batch_size=2), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        model.fit(*rows(4), batch_size=2)


def small_model():
    with strategy_of_job().scope():
        model = keras.Sequential([keras.Input((2,), batch_size=2), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    return model


def rows(count):
    return np.zeros((count, 2), np.float32), np.zeros((count, 1), np.float32)


def outside_of_fit():
    model = small_model()
    step = tf.function(model.train_step, autograph=False)
    x, y = rows(2)
    model.distribute_strategy.run(step, args=((tf.constant(x), tf.constant(y)),))


def sharded_state():
    model = small_model()
    model.set_gradient_accumulation_options(2, replicated_optimizer_state_sharding=True)
    model.compile("sgd", "mse", steps_per_execution=2)
    model.fit(*rows(16), batch_size=2, verbose=0)


def groups():
    @tf.function
    def program():
        return cross_replica_ops.cross_replica_sum(tf.constant(1.0), replica_group_size=2)

    config = IPUConfig()
    config.auto_select_ipus = JOB.local_replicas
    config.configure_ipu_system()
    PopDistStrategy().run(program)


def other_device():
    with PopDistStrategy().scope():  # Of one IPU.
        model = keras.Sequential([keras.Input((2,), batch_size=2), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        model.fit(*rows(4), batch_size=2, verbose=0)


def _sum_of(name):
    @tf.function
    def program():
        return cross_replica_ops.cross_replica_sum(tf.constant(1.0), name=name)

    return program


def stops_early():
    strategy = strategy_of_job()
    strategy.run(_sum_of("one"))
    if JOB.index == 0:
        strategy.run(_sum_of("one"))


def another_order():
    strategy = strategy_of_job()
    for name in ("one", "two")[:: 1 - 2 * JOB.index]:
        strategy.run(_sum_of(name))


def another_program():
    strategy = strategy_of_job()

    @tf.function
    def program():
        found = cross_replica_ops.cross_replica_sum(tf.constant(1.0), name="one")
        return found * 2.0 if JOB.index == 1 else found

    strategy.run(program)


def another_model():
    with strategy_of_job().scope():
        layer = keras.layers.Dense(1, activation=("tanh", "relu")[JOB.index % 2])
        model = keras.Sequential([keras.Input((2,), batch_size=2), layer])
        model.compile("sgd", "mse")
        model.fit(*rows(4 * JOB.local_replicas), batch_size=2, verbose=0)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
