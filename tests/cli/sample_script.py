"""A script for `ipu-tf run`: it trains as its words say, and prints how it was started."""

import sys
from pathlib import Path

import keras
import neighbour_of_script
import numpy as np

import ipu_tf

if __name__ == "__main__":
    print("words", sys.argv[1:])
    print("here", Path("data.txt").read_text())
    print("main", sys.modules["__main__"].__dict__ is globals())
    print("neighbour", neighbour_of_script.NAME)
    with ipu_tf.IPUStrategy().scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)], name="scripted")
        model.compile("sgd", "mse")
        x = np.ones((8, 4), "float32")
        model.fit(x, x[:, :2], batch_size=4, verbose=0)
    if "fail" in sys.argv:
        raise RuntimeError("the script's own error")
    sys.exit(3 if "three" in sys.argv else None)
