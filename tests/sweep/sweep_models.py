"""Small models that processes of sweeps import."""

import os
import sys

import keras


def dense():
    layers = [keras.layers.Dense(64, "relu") for _ in range(3)]
    return keras.Sequential([keras.Input((32,)), *layers, keras.layers.Dense(4)])


def broken():
    raise RuntimeError("no model today")


def dies():
    print("out of luck", file=sys.stderr, flush=True)
    os._exit(7)
