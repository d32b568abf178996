"""Names of the interface take the arguments that the vendor's functions take."""

import ast
import inspect
import textwrap

import pytest

from ipu_tf.compat.arguments import unused_arguments
from ipu_tf.compat.missing import Missing
from ipu_tf.compat.states import WITHOUT_EFFECT, looked_up
from ipu_tf.compat.vendor_api import vendor_api

CALLABLES = ("function", "class", "class()", "method", "staticmethod", "classmethod")
OWN_DEFAULTS = {
    # Functions that are equal, and the value behind a name of the vendor's.
    ("ipu.config.AttributeMetadata", "check_type_fn"),
    ("ipu_tensorflow_addons.keras.layers.dense.Dense", "kernel_format"),
}

pytestmark = pytest.mark.usefixtures("vendor_names")


@pytest.fixture(scope="module")
def callables():
    """The function, or the initializer, of every name that is called and exists here."""
    found = {}
    for name, listed in vendor_api().items():
        if not listed.kind.startswith(CALLABLES):
            continue
        one = looked_up(name)
        if callable(one) and not isinstance(one, Missing):
            found[name] = one.__init__ if inspect.isclass(one) else one
    return found


def vendor_parameters(listed):
    """Names of a signature with the text of their defaults; a signature cut short lacks its end."""
    text = listed.signature
    if text.endswith("..."):
        text = text.rpartition(",")[0]
    arguments = ast.parse(f"def function({text}): ...").body[0].args
    first = len(arguments.args) - len(arguments.defaults)
    return {
        argument.arg: None if i < first else ast.unparse(arguments.defaults[i - first])
        for i, argument in enumerate(arguments.args)
    }


def own_parameters(function):
    parameters = list(inspect.signature(function).parameters.values())
    if parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    return parameters


def differences(name, function):
    listed = vendor_api()[name]
    if listed.kind == "class" and not listed.signature:
        return  # It inherits its initializer.
    wanted = vendor_parameters(listed)
    own = own_parameters(function)
    kinds = inspect.Parameter
    positional = [p for p in own if p.kind is kinds.POSITIONAL_OR_KEYWORD]
    named = {p.name: p for p in own}
    for position, (argument, default) in enumerate(wanted.items()):
        rest = {p.kind for p in own} & {kinds.VAR_KEYWORD, kinds.VAR_POSITIONAL}
        if argument not in named and len(rest) == 2:
            continue  # Passed on, by position or by name.
        if argument not in named:
            yield f"{argument} is missing"
        elif position >= len(positional) or positional[position].name != argument:
            yield f"{argument} is not at position {position}"
        elif (default is None) != (named[argument].default is kinds.empty):
            yield f"{argument} needs the default {default}"
        elif default is not None and (name, argument) not in OWN_DEFAULTS:
            try:
                value = ast.literal_eval(default)
            except ValueError:
                continue  # The default is a name of the vendor's module.
            found = named[argument].default
            if value not in (found, list(found) if isinstance(found, tuple) else found):
                yield f"{argument}={found!r}, not {value!r}"
    for parameter in own[len(wanted) :]:
        if parameter.default is kinds.empty and parameter.kind is kinds.POSITIONAL_OR_KEYWORD:
            yield f"{parameter.name} is required"


KEPT_NAMES = {
    # Keras 3 passes the shapes of a call's arguments under these names.
    "ipu_tensorflow_addons.keras.layers.effective_transformer.EffectiveTransformer.build",
    "ipu_tensorflow_addons.keras.layers.rnn.PopnnLSTM.build",
    "ipu_tensorflow_addons.keras.layers.rnn.PopnnGRU.build",
    # Keras 3 builds a layer for a shape.
    "ipu_tensorflow_addons.keras.layers.embedding_lookup.Embedding.build",
}


def test_arguments_have_their_names_order_and_defaults(callables):
    found = {name: [*differences(name, function)] for name, function in callables.items()}
    assert {name for name, some in found.items() if some} - KEPT_NAMES == set(), found
    assert len(found) > 300


def unused_in(function):
    """Parameters that the body of a function of this package does not read."""
    function = inspect.unwrap(function)
    is_own = getattr(function, "__module__", "").startswith("ipu_tf")
    if not is_own or function.__code__.co_filename == "<string>":  # A dataclass' initializer.
        return set()
    source = textwrap.dedent(inspect.getsource(function))
    tree = ast.parse(source).body[0]
    if not isinstance(tree, ast.FunctionDef):
        return set()
    read = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    if "locals" in read:
        return set()
    parameters = {argument.arg for argument in (*tree.args.args, *tree.args.kwonlyargs)}
    return parameters - read - {"self", "cls"}


def test_arguments_without_effect_are_documented(callables):
    dropped = {
        (name, argument)
        for name, function in callables.items()
        if name not in WITHOUT_EFFECT
        for argument in unused_in(function)
    }
    documented = set(unused_arguments())
    assert dropped <= documented
    for name, argument in documented:
        parameters = [parameter.name for parameter in own_parameters(callables[name])]
        assert argument in parameters, (name, argument)
