"""Results of layers in mappings of a script's own, such as those of Hugging Face's models."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from ipu_tf.compat.spellings.spelling import Call, Notify, Spelling
from ipu_tf.internals.keras import KerasFunctional, keras_backend, register_mappings_in
from ipu_tf.internals.patches import Patch, Wrap

_INFERRED_RESULTS = Patch(
    keras_backend, "compute_output_spec", "layers may return mappings of a script's own"
)
_FUNCTIONAL_MODELS = Patch(
    KerasFunctional, "__init__", "models may return mappings of a script's own"
)


def _own_mappings(notify: Notify) -> Wrap:
    """Returns the factory of the function that infers the results of a layer's symbolic call."""

    def wrap(stock: Callable[..., Any]) -> Callable[..., Any]:
        def compute_output_spec(call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
            def register_result(*inner_args: Any, **inner_kwargs: Any) -> Any:
                result = call(*inner_args, **inner_kwargs)
                if register_mappings_in(result):
                    notify()
                return result

            return stock(register_result, *args, **kwargs)

        return compute_output_spec

    return wrap


def _model_of_mappings(call: Call) -> bool:
    """Registers the mappings among the tensors at the ends of a functional model."""
    return register_mappings_in((call.args, call.kwargs))


SPELLINGS = (
    Spelling(
        name="a subclass of `dict` that a layer or a model returns",
        keras_2="Its tensors, in the order of their sorted keys.",
        here="It is the same; the class takes an iterable of its items, as `dict` does.",
        wraps=MappingProxyType({_INFERRED_RESULTS: _own_mappings}),
        rewrites=MappingProxyType({_FUNCTIONAL_MODELS: _model_of_mappings}),
    ),
)
