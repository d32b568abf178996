"""Scopes that override the configuration."""

import contextlib
import re
import threading

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import scopes
from ipu_tf.scopes import ScopeState


def test_outside_nothing_is_overridden():
    assert scopes.current() == ScopeState(stochastic_rounding=None, partials=None)


def test_scopes_nest_and_leave_each_other_alone():
    with scopes.stochastic_rounding(True), scopes.partials_type(tf.float16):
        outer = ScopeState(stochastic_rounding=True, partials="float16")
        assert scopes.current() == outer
        with scopes.stochastic_rounding(False):
            assert scopes.current() == ScopeState(stochastic_rounding=False, partials="float16")
            with scopes.partials_type(tf.float32):
                assert scopes.current() == ScopeState(stochastic_rounding=False, partials="float32")
        assert scopes.current() == outer
    assert scopes.current() == ScopeState()


def test_a_scope_ends_with_an_exception():
    with contextlib.suppress(KeyError), scopes.stochastic_rounding(True):
        raise KeyError
    assert scopes.current() == ScopeState()


@pytest.mark.parametrize("dtype", [tf.float16, np.float16, np.dtype("float16"), "float16", "half"])
def test_partials_types(dtype):
    with scopes.partials_type(dtype):
        assert scopes.current().partials == "float16"


@pytest.mark.parametrize("dtype", [tf.bfloat16, np.float64, np.int32, "double", None, True])
def test_bad_partials_types(dtype):
    message = f"partials_type takes tf.float16 or tf.float32. Received: {dtype!r}."
    with pytest.raises(ValueError, match=re.escape(message)):
        scopes.partials_type(dtype)


@pytest.mark.parametrize("override", [1, None, "on", np.True_])
def test_bad_rounding_overrides(override):
    message = f"stochastic_rounding takes True or False. Received: {override!r}"
    with pytest.raises(TypeError, match=re.escape(message)):
        scopes.stochastic_rounding(override)


def test_a_scope_belongs_to_its_thread():
    seen = []
    with scopes.stochastic_rounding(True):
        thread = threading.Thread(target=lambda: seen.append(scopes.current()))
        thread.start()
        thread.join()
    assert seen == [ScopeState()]


def test_scopes_hold_while_a_function_is_traced():
    seen = []

    @tf.function
    def step(x):
        with scopes.stochastic_rounding(True):
            if tf.reduce_sum(x) > 0:
                with scopes.partials_type(tf.float16):
                    seen.append(scopes.current())
                    x = x + 1
        seen.append(scopes.current())
        return x

    step(tf.ones(2))
    assert ScopeState(stochastic_rounding=True, partials="float16") in seen
    assert seen[-1] == scopes.current() == ScopeState()
