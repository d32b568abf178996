"""The queues of Keras 2 that compute batches ahead of their reader."""

import itertools

import keras
import numpy as np
import pytest


class Numbers(keras.utils.PyDataset):
    """Four batches of one number each; the fourth is None. Each epoch adds ten."""

    def __init__(self):
        super().__init__()
        self.epoch = 0

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return None if index == 3 else 10 * self.epoch + index

    def on_epoch_end(self):
        self.epoch += 1


def test_an_ordered_enqueuer_goes_on_with_epochs(keras_2, notices):
    enqueuer = keras.utils.OrderedEnqueuer(Numbers(), use_multiprocessing=False)
    enqueuer.start(workers=3, max_queue_size=2)
    assert enqueuer.is_running()
    assert list(itertools.islice(enqueuer.get(), 7)) == [0, 1, 2, 10, 11, 12, 20]
    assert next(enqueuer.get()) == 21
    enqueuer.stop()
    assert not enqueuer.is_running()
    assert list(enqueuer.get()) == []
    notices.once("`keras.utils.OrderedEnqueuer`")


def test_an_epoch_is_shuffled_whole(keras_2):
    enqueuer = keras.utils.OrderedEnqueuer(np.arange(6).view(Shuffled), shuffle=True)
    enqueuer.start()
    read = list(itertools.islice(enqueuer.get(), 12))
    enqueuer.stop()
    assert sorted(read[:6]) == sorted(read[6:]) == list(range(6))


class Shuffled(np.ndarray):
    """An array that is a sequence of batches."""

    def on_epoch_end(self):
        """Changes nothing."""


def test_a_generator_is_read_to_its_end(keras_2):
    enqueuer = keras.utils.GeneratorEnqueuer(iter(range(20)))
    enqueuer.start(workers=2, max_queue_size=3)
    assert list(enqueuer.get()) == list(range(20))
    enqueuer.stop()


def test_an_error_of_a_batch_reaches_the_reader(keras_2):
    def failing():
        yield 1
        raise OSError("no such file")

    enqueuer = keras.utils.GeneratorEnqueuer(failing())
    enqueuer.start()
    batches = enqueuer.get()
    assert next(batches) == 1
    with pytest.raises(OSError, match="no such file"):
        next(batches)


def test_the_base_class_has_no_batches(keras_2):
    enqueuer = keras.utils.SequenceEnqueuer([1])
    with pytest.raises(NotImplementedError, match="SequenceEnqueuer computes no batches"):
        enqueuer.start()
