"""The stock ops that the joined loops of recurrent layers stand for, step after step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from ipu_tf.ops.kernels.chains import Chain


def lstm(chain: Chain) -> Sequence[str]:
    """Adds what IpuLstm does."""
    x, h, c, kernel, recurrent, bias = chain.inputs
    all_h, all_c, gates = [h], [c], []
    for x_t in _steps(chain, x):
        products = chain.add("MatMul", x_t, kernel), chain.add("MatMul", h, recurrent)
        sums = chain.add("BiasAdd", chain.add("AddV2", *products), bias)
        of_i, of_f, of_g, of_o = _split(chain, sums, 4)
        i, f, o = (chain.add("Sigmoid", one) for one in (of_i, of_f, of_o))
        g = chain.add("Tanh", of_g)
        c = chain.add("AddV2", chain.add("Mul", f, c), chain.add("Mul", i, g))
        h = chain.add("Mul", o, chain.add("Tanh", c))
        all_h.append(h)
        all_c.append(c)
        gates.append(_concatenate(chain, [i, f, g, o]))
    stacks = [_stack(chain, values) for values in (all_h, all_c, gates)]
    return [_outputs(chain, all_h), h, c, *stacks]


def lstm_gradient(chain: Chain) -> Sequence[str]:
    """Adds what IpuLstmGrad does."""
    x, kernel, recurrent, all_h, all_c, gates, d_outputs, dh, dc = chain.inputs
    inputs, known_gates = _steps(chain, x), _steps(chain, gates)
    states_h, states_c = _steps(chain, all_h, 1), _steps(chain, all_c, 1)
    of_outputs = _output_gradients(chain, d_outputs)
    steps = []
    for t in reversed(range(len(inputs))):
        i, f, g, o = _split(chain, known_gates[t], 4)
        if (of_output := of_outputs[t]) is not None:
            dh = chain.add("AddV2", dh, of_output)
        y = chain.add("Tanh", states_c[t + 1])
        dc = chain.add("AddV2", dc, chain.add("TanhGrad", y, chain.add("Mul", dh, o)))
        of_sums = _concatenate(
            chain,
            [
                chain.add("SigmoidGrad", i, chain.add("Mul", dc, g)),
                chain.add("SigmoidGrad", f, chain.add("Mul", dc, states_c[t])),
                chain.add("TanhGrad", g, chain.add("Mul", dc, i)),
                chain.add("SigmoidGrad", o, chain.add("Mul", dh, y)),
            ],
        )
        dc = chain.add("Mul", dc, f)
        dh = chain.add("MatMul", of_sums, recurrent, transpose_b=True)
        steps.append(_Step(inputs[t], states_h[t], of_sums, of_sums))
    dx, d_kernel, d_recurrent = _weight_gradients(chain, steps, kernel)
    return [dx, dh, dc, d_kernel, d_recurrent, _bias_gradient(chain, [s.outer for s in steps])]


def gru(chain: Chain) -> Sequence[str]:
    """Adds what IpuGru does."""
    x, h, kernel, recurrent, biases = chain.inputs
    outer_bias, inner_bias = chain.parts("Unpack", 2, biases, num=2, axis=0)
    one, all_h, gates = chain.constant(1.0, tf.float32), [h], []
    for x_t in _steps(chain, x):
        outer = chain.add("BiasAdd", chain.add("MatMul", x_t, kernel), outer_bias)
        inner = chain.add("BiasAdd", chain.add("MatMul", h, recurrent), inner_bias)
        x_z, x_r, x_h = _split(chain, outer, 3)
        h_z, h_r, h_h = _split(chain, inner, 3)
        z = chain.add("Sigmoid", chain.add("AddV2", x_z, h_z))
        r = chain.add("Sigmoid", chain.add("AddV2", x_r, h_r))
        new = chain.add("Tanh", chain.add("AddV2", x_h, chain.add("Mul", r, h_h)))
        new_share = chain.add("Mul", chain.add("Sub", one, z), new)
        h = chain.add("AddV2", chain.add("Mul", z, h), new_share)
        all_h.append(h)
        gates.append(_concatenate(chain, [z, r, new, h_h]))
    return [_outputs(chain, all_h), h, _stack(chain, all_h), _stack(chain, gates)]


def gru_gradient(chain: Chain) -> Sequence[str]:
    """Adds what IpuGruGrad does."""
    x, kernel, recurrent, all_h, gates, d_outputs, dh = chain.inputs
    inputs, known_gates, states = (
        _steps(chain, x),
        _steps(chain, gates),
        _steps(chain, all_h, 1),
    )
    of_outputs, one = _output_gradients(chain, d_outputs), chain.constant(1.0, tf.float32)
    steps = []
    for t in reversed(range(len(inputs))):
        z, r, new, h_h = _split(chain, known_gates[t], 4)
        if (of_output := of_outputs[t]) is not None:
            dh = chain.add("AddV2", dh, of_output)
        new_share = chain.add("Sub", one, z)
        of_new = chain.add("TanhGrad", new, chain.add("Mul", dh, new_share))
        difference = chain.add("Sub", states[t], new)
        of_z = chain.add("SigmoidGrad", z, chain.add("Mul", dh, difference))
        of_r = chain.add("SigmoidGrad", r, chain.add("Mul", of_new, h_h))
        outer = _concatenate(chain, [of_z, of_r, of_new])
        inner = _concatenate(chain, [of_z, of_r, chain.add("Mul", of_new, r)])
        through = chain.add("MatMul", inner, recurrent, transpose_b=True)
        dh = chain.add("AddV2", chain.add("Mul", dh, z), through)
        steps.append(_Step(inputs[t], states[t], outer, inner))
    dx, d_kernel, d_recurrent = _weight_gradients(chain, steps, kernel)
    of_biases = [
        _bias_gradient(chain, [s.outer for s in steps]),
        _bias_gradient(chain, [s.inner for s in steps]),
    ]
    return [dx, dh, d_kernel, d_recurrent, _stack(chain, of_biases)]


class _Step(NamedTuple):
    """What a step multiplied, and the gradients of its products with inputs and with the state."""

    x: str
    h: str
    outer: str
    inner: str


def _steps(chain: Chain, values: str, more: int = 0) -> list[str]:
    count = chain.attribute("steps").i + more
    return chain.parts("Unpack", count, values, num=count, axis=0)


def _split(chain: Chain, values: str, count: int) -> list[str]:
    return chain.parts("Split", count, chain.constant(1, tf.int32), values, num_split=count)


def _concatenate(chain: Chain, values: Sequence[str]) -> str:
    return chain.add("ConcatV2", *values, chain.constant(1, tf.int32), N=len(values))


def _stack(chain: Chain, values: Sequence[str]) -> str:
    return chain.add("Pack", *values, N=len(values), axis=0)


def _outputs(chain: Chain, states: Sequence[str]) -> str:
    return _stack(chain, states[-1:] if chain.attribute("last_only").b else states[1:])


def _output_gradients(chain: Chain, gradients: str) -> list[str | None]:
    """Returns the gradient of the output of each step, None where the step has none."""
    steps = chain.attribute("steps").i
    if not chain.attribute("last_only").b:
        return [*_steps(chain, gradients)]
    return [*[None] * (steps - 1), *chain.parts("Unpack", 1, gradients, num=1, axis=0)]


def _weight_gradients(chain: Chain, steps: Sequence[_Step], kernel: str) -> tuple[str, str, str]:
    """Returns the gradients of the inputs and of both matrices, from steps last to first."""
    dx = [chain.add("MatMul", step.outer, kernel, transpose_b=True) for step in reversed(steps)]
    of_kernel = [chain.add("MatMul", step.x, step.outer, transpose_a=True) for step in steps]
    of_state = [chain.add("MatMul", step.h, step.inner, transpose_a=True) for step in steps]
    count = len(steps)
    sums = [chain.add("AddN", *terms, N=count) for terms in (of_kernel, of_state)]
    return _stack(chain, dx), sums[0], sums[1]


def _bias_gradient(chain: Chain, gradients: Sequence[str]) -> str:
    sums = [chain.add("BiasAddGrad", gradient) for gradient in gradients]
    return chain.add("AddN", *sums, N=len(sums))
