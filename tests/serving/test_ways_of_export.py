"""Each way to export a SavedModel: on the device, in a loop with feeds, and in stock TensorFlow."""

import json
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import loops, serving
from ipu_tf.ipu_infeed_queue import IPUInfeedQueue
from ipu_tf.ipu_outfeed_queue import IPUOutfeedQueue

X = np.random.default_rng(8).normal(size=(3, 4, 6)).astype("float32")
KERNEL = np.random.default_rng(9).normal(size=(6, 3)).astype("float32")
PIXELS = np.round(50 * X)

HOST_WORK = {
    "preprocessing_step": lambda pixels: pixels / 50,
    "preprocessing_step_signature": [tf.TensorSpec((4, 6), tf.float32, "pixels")],
    "postprocessing_step": lambda scores: {"best": tf.argmax(scores, 1), "scores": scores},
}

STOCK = """
import json, sys
import numpy as np
import tensorflow as tf

answers = {}
for folder in sys.argv[2:]:
    signature = tf.saved_model.load(folder).signatures["serving_default"]
    results = [signature(pixels=batch) for batch in np.load(sys.argv[1])]
    answers[folder] = {name: [one[name].numpy().tolist() for one in results] for name in results[0]}
assert not [name for name in sys.modules if name.split(".")[0] == "ipu_tf"]
print(json.dumps(answers))
"""


def exported(strategy, root):
    """Exports a product in each way; returns folders and the functions of the device."""
    kernel = tf.Variable(KERNEL)
    spec = [tf.TensorSpec((4, 6))]
    with strategy.scope():
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3, use_bias=False)])
        model.set_weights([KERNEL])
        model.compile()
        return {
            "single_step": serving.export_single_step(
                lambda x: tf.matmul(x, kernel), root / "single_step", 2, spec, **HOST_WORK
            ),
            "pipeline": serving.export_pipeline(
                [lambda x: tf.matmul(x, kernel), tf.identity],
                root / "pipeline",
                2,
                device_mapping=[0, 0],
                predict_step_signature=spec,
                **HOST_WORK,
            ),
            "keras": serving.export_keras(model, root / "keras", 4, **HOST_WORK),
            "method": model.export_for_ipu_serving(root / "method", 4, **HOST_WORK),
        }


@pytest.mark.slow
def test_every_way_runs_on_the_device_with_feeds_and_in_stock_tensorflow(strategy, tmp_path):
    functions = exported(strategy, tmp_path)
    expected = PIXELS / 50 @ KERNEL
    for name, on_device in functions.items():
        outputs = [on_device(batch) for batch in PIXELS]
        np.testing.assert_allclose(
            [one["scores"] for one in outputs], expected, rtol=1e-4, atol=1e-5, err_msg=name
        )
        np.testing.assert_array_equal([one["best"] for one in outputs], np.argmax(expected, 2))
        outfeed = IPUOutfeedQueue()
        infeed = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(PIXELS))
        loaded = tf.saved_model.load(str(tmp_path / name))

        @tf.function
        def serve(loaded=loaded, infeed=infeed, outfeed=outfeed):
            loops.repeat(3, lambda x: outfeed.enqueue(loaded.program(x / 50)), [], infeed)

        strategy.run(serve)
        (fed,) = tf.nest.flatten(outfeed.dequeue())
        np.testing.assert_allclose(fed, expected, rtol=1e-4, atol=1e-5, err_msg=name)

    np.save(tmp_path / "pixels.npy", PIXELS)
    folders = [str(tmp_path / name) for name in functions]
    command = [sys.executable, "-c", STOCK, str(tmp_path / "pixels.npy"), *folders]
    answers = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    for folder in folders:
        np.testing.assert_allclose(answers[folder]["scores"], expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(answers[folder]["best"], np.argmax(expected, 2))
