"""An LSTM encoder and decoder learn to add numbers that are written as digits."""

import argparse

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers
from tensorflow.python import ipu

DIGITS = 2
CHARACTERS = "0123456789+ "
QUESTION = 2 * DIGITS + 1
ANSWER = DIGITS + 1

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=20)
parser.add_argument("--samples", type=int, default=32_768)
parser.add_argument("--accumulate", type=int, default=2)
parser.add_argument("--units", type=int, default=64)
args = parser.parse_args()


def encode(texts, length):
    indices = [[CHARACTERS.index(character) for character in text] for text in texts]
    return np.eye(len(CHARACTERS), dtype=np.float32)[np.array(indices).reshape(-1, length)]


rng = np.random.RandomState(0)
numbers = rng.randint(10**DIGITS, size=(args.samples, 2))
questions = [f"{a}+{b}".ljust(QUESTION)[::-1] for a, b in numbers]
answers = [str(a + b).ljust(ANSWER) for a, b in numbers]
x, y = encode(questions, QUESTION), encode(answers, ANSWER)

cfg = ipu.config.IPUConfig()
cfg.auto_select_ipus = 1
cfg.matmuls.poplar_options = {"availableMemoryProportion": "0.4"}
cfg.configure_ipu_system()

strategy = ipu.ipu_strategy.IPUStrategy()
with strategy.scope():
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(64, drop_remainder=True)
    encoder_input = keras.Input(shape=(QUESTION, len(CHARACTERS)))
    _, hidden, cell = layers.LSTM(args.units, return_state=True, name="encoder")(encoder_input)
    thought = layers.RepeatVector(ANSWER)(hidden)
    decoder = layers.LSTM(args.units, return_sequences=True, name="decoder")
    decoded = decoder(thought, initial_state=[hidden, cell])
    outputs = layers.TimeDistributed(layers.Dense(len(CHARACTERS), activation="softmax"))(decoded)
    model = keras.Model(encoder_input, outputs, name="adder")
    model.set_gradient_accumulation_options(gradient_accumulation_steps_per_replica=args.accumulate)
    model.compile(
        loss="categorical_crossentropy",
        optimizer=keras.optimizers.Adam(learning_rate=0.01),
        metrics=["accuracy"],
        steps_per_execution=len(dataset),
    )
    history = model.fit(dataset, epochs=args.epochs, verbose=2)
    guesses = model.predict(x[:64], batch_size=32)
read = ["".join(CHARACTERS[i] for i in row.argmax(-1)) for row in guesses]
print("question", questions[0][::-1].strip(), "answer", read[0].strip())
print("accuracy", history.history["accuracy"][-1])
