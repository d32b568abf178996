"""Metadata and deprecation, on a small tree that is made for it."""

import typing

import pytest

from ipu_tf.config import (
    AttributeMetadata,
    IPUConfig,
    deprecate_config_attribute,
    deprecate_config_attributes,
)
from ipu_tf.config.category import Category
from ipu_tf.config.declaration import option
from ipu_tf.config.metadata import matches_type


class Leaf(Category):
    """The innermost category."""

    d: bool = option(False, "")


@deprecate_config_attributes({"c": "c has its own reason."})
class Inner(Category):
    """The inner category."""

    b: int = option(1, "What b means.")
    c: int = option(1, "What c means.")
    leaf: Leaf


@deprecate_config_attribute("inner", "Go without inner.")
@deprecate_config_attribute("old", "Use a.")
class Root(Category):
    """The root."""

    a: typing.Union[int, typing.List[float]] = option(1, "What a means.")  # noqa: UP006, UP007
    old: int = option(0, "What old meant.")
    inner: Inner


def test_metadata_of_an_option():
    metadata = Root().get_attribute_metadata("a")
    assert (metadata.name, metadata.depth, metadata.default) == ("a", 1, 1)
    assert metadata.type == "typing.Union[int, typing.List[float]]"
    assert metadata.actual_type == Root._hints["a"]
    assert metadata.__doc__ == "What a means."
    assert (metadata.deprecated, metadata.deprecated_msg) == (False, None)
    assert repr(metadata) == (
        "AttributeMetadata(name='a', type='typing.Union[int, typing.List[float]]')"
    )


def test_metadata_of_a_category():
    metadata = Root().get_attribute_metadata("inner")
    assert (metadata.name, metadata.type, metadata.default) == ("inner", None, None)
    assert "The inner category." in metadata.__doc__


def test_metadata_names_are_relative_to_the_category():
    assert Root().inner.get_attribute_metadata("b").name == "inner.b"
    message = "Could not get attribute metadata for 'inner.b': 'inner.b' is not a valid attribute"
    with pytest.raises(ValueError, match=message):
        Root().inner.get_attribute_metadata("inner.b")


@pytest.mark.parametrize("name", ["inner.x", "_table", ""])
def test_metadata_of_nothing(name):
    message = f"Could not get attribute metadata for '{name}': '{name}' is not a valid"
    with pytest.raises(ValueError, match=message):
        Root().get_attribute_metadata(name)


def test_metadata_checks_types():
    metadata = Root().get_attribute_metadata("a")
    metadata.check_type([1.0])
    with pytest.raises(TypeError, match=r"Trying to set a to \[1\], but it must be of type"):
        metadata.check_type([1])


def test_metadata_by_hand_takes_any_value_and_says_that_it_has_no_description():
    metadata = AttributeMetadata("name")
    metadata.check_type(object())
    assert metadata.__doc__ == "No description provided."
    assert (metadata.name, metadata.depth, metadata.type) == ("name", 0, None)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("old", "Use a."),
        ("inner", "Go without inner."),
        ("inner.b", "Go without inner."),
        ("inner.c", "c has its own reason."),
        ("inner.leaf.d", "Go without inner."),
    ],
)
def test_deprecation_is_handed_down(name, message):
    metadata = Root().get_attribute_metadata(name)
    assert metadata.deprecated
    assert metadata.deprecated_msg == message
    assert metadata.__doc__.startswith(f"DEPRECATED: {message}\n")


def test_setting_a_deprecated_option_warns(caplog):
    root = Root()
    root.a = 2
    assert caplog.records == []
    root.inner.leaf.d = True
    assert caplog.messages == ["inner.leaf.d has been deprecated: Go without inner."]
    assert caplog.records[0].levelname == "WARNING"


def test_the_old_name_of_fast_math_is_deprecated(caplog):
    IPUConfig().optimizations.enable_fast_math = True
    assert "optimizations.enable_fast_math has been deprecated" in caplog.text
    assert "optimizations.math.fast" in caplog.text


def test_only_what_exists_can_be_deprecated():
    with pytest.raises(ValueError, match="Cannot deprecate 'x': Leaf has no such option"):
        deprecate_config_attribute("x", "Gone.")(Leaf)


def test_a_subclass_keeps_the_options_of_its_base():
    class Extended(IPUConfig):
        extra: int = option(3, "One more.")

    assert Extended().extra == 3
    assert Extended().floating_point_behaviour.inv is False
    assert "extra" not in IPUConfig().to_dict()


@pytest.mark.parametrize(
    ("value", "hint", "matches"),
    [
        (1, int, True),
        (True, int, False),
        (1, float, False),
        ([1, 2], list[int], True),
        ([1, 2.0], list[int], False),
        ([1, "a"], list[int | str], True),
        ((1, 2), tuple[int, ...], True),
        ((), tuple[int, ...], True),
        ((1, "a"), tuple[int, str], True),
        ((1,), tuple[int, str], False),
        ([1], tuple[int, ...], False),
        (([1.0, ("a",)],), tuple[list[float | tuple[str]], ...], True),
        (([1.0, ("a", "b")],), tuple[list[float | tuple[str]], ...], False),
        ("a", typing.Optional[str], True),  # noqa: UP045
        (None, type(None), True),
    ],
)
def test_types_match_exactly(value, hint, matches):
    assert matches_type(value, hint) is matches
