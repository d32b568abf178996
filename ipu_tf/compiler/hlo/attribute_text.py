"""Attributes of instructions as text, and back."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Iterator

from ipu_tf.compiler.hlo.attributes import (
    ATTRIBUTE_TYPES,
    ConvolutionDimensions,
    PaddingDimension,
    SliceDimension,
    Window,
    WindowDimension,
)

_WINDOW_FIELDS = {
    "stride": "stride",
    "lhs_dilate": "base_dilation",
    "rhs_dilate": "window_dilation",
    "rhs_reversal": "window_reversal",
}
_NUMBER = re.compile(r"-?\d+$")
_OPENING, _CLOSING = "{[(", "}])"


def to_text(key: str, value: object) -> str:
    """Returns the text of an attribute's value."""
    if isinstance(value, Window):
        return _window_text(value)
    if isinstance(value, ConvolutionDimensions):
        return _labels(value)
    if key == "slice_dimensions" and isinstance(value, tuple):
        return "{" + ", ".join(f"[{d.start}:{d.limit}:{d.stride}]" for d in value) + "}"
    if key == "padding_config" and isinstance(value, tuple):
        return "x".join(f"{d.low}_{d.high}_{d.interior}" for d in value) or "{}"
    if dataclasses.is_dataclass(value):
        fields = [f.name for f in dataclasses.fields(value)]
        return "{" + " ".join(f"{n}={to_text(n, getattr(value, n))}" for n in fields) + "}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "{" + ",".join(to_text("", part) for part in value) + "}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return repr(value)


def parse(key: str, text: str) -> object:
    """Returns the value that `to_text` wrote.

    Raises:
        ValueError: The text is no attribute of this key.
    """
    kind = ATTRIBUTE_TYPES.get(key)
    if kind is Window:
        return _parse_window(text)
    if kind is ConvolutionDimensions:
        return _parse_labels(text)
    if kind is SliceDimension:
        parts = (re.split(":", part.strip("[] ")) for part in split(text[1:-1]))
        return tuple(SliceDimension(start=int(a), limit=int(b), stride=int(c)) for a, b, c in parts)
    if kind is PaddingDimension:
        numbers = ([int(n) for n in part.split("_")] for part in text.split("x") if part != "{}")
        return tuple(PaddingDimension(low=a, high=b, interior=c) for a, b, c in numbers)
    if kind is not None:
        pairs = (part.partition("=") for part in split(text[1:-1], " "))
        return kind(**{name: parse("", value) for name, _, value in pairs})
    return _parse_plain(text)


def split(text: str, separator: str = ",") -> Iterator[str]:
    """Yields the parts of a list, stripped; separators in brackets or quotes do not count."""
    depth, start, quoted, escaped = 0, 0, False, False
    for index, character in enumerate(text):
        if quoted:
            quoted = character != '"' or escaped
            escaped = character == "\\" and not escaped
        elif character == '"':
            quoted = True
        elif character in _OPENING:
            depth += 1
        elif character in _CLOSING:
            depth -= 1
        elif character == separator and depth == 0:
            if text[start:index].strip():
                yield text[start:index].strip()
            start = index + 1
    if text[start:].strip():
        yield text[start:].strip()


def _parse_plain(text: str) -> object:
    if text.startswith("{"):
        return tuple(_parse_plain(part) for part in split(text[1:-1]))
    if text.startswith('"'):
        return json.loads(text)
    if text in ("true", "false"):
        return text == "true"
    if _NUMBER.match(text):
        return int(text)
    try:
        return float(text)
    except ValueError:
        return text


def _window_text(window: Window) -> str:
    dims = window.dimensions
    parts = ["size=" + "x".join(str(d.size) for d in dims)]
    plain = WindowDimension(size=1)
    for name, field in _WINDOW_FIELDS.items():
        values = [getattr(d, field) for d in dims]
        if any(value != getattr(plain, field) for value in values):
            parts.append(f"{name}=" + "x".join(str(int(value)) for value in values))
    if any(d.padding_low or d.padding_high for d in dims):
        parts.append("pad=" + "x".join(f"{d.padding_low}_{d.padding_high}" for d in dims))
    return "{" + " ".join(parts) + "}"


def _parse_window(text: str) -> Window:
    columns: dict[str, list[int]] = {}
    for part in text.strip("{}").split():
        name, _, values = part.partition("=")
        if name == "size":
            columns["size"] = [int(value) for value in values.split("x")]
        elif name == "pad":
            pairs = [value.split("_") for value in values.split("x")]
            columns["padding_low"] = [int(low) for low, _ in pairs]
            columns["padding_high"] = [int(high) for _, high in pairs]
        elif name in _WINDOW_FIELDS:
            kind = bool if name == "rhs_reversal" else int
            columns[_WINDOW_FIELDS[name]] = [kind(int(value)) for value in values.split("x")]
        else:
            raise ValueError(f"A window has no '{name}'. Received: {text}.")
    rank = len(columns.get("size", ()))
    dimension_type: Callable[..., WindowDimension] = WindowDimension
    rows = [{name: values[i] for name, values in columns.items()} for i in range(rank)]
    return Window(dimensions=tuple(dimension_type(**row) for row in rows))


def _labels(d: ConvolutionDimensions) -> str:
    def word(
        first: int, first_label: str, second: int, second_label: str, spatial: Iterable[int]
    ) -> str:
        labels = {first: first_label, second: second_label}
        labels |= {dimension: str(index) for index, dimension in enumerate(spatial)}
        return "".join(labels[index] for index in sorted(labels))

    lhs = word(d.input_batch, "b", d.input_feature, "f", d.input_spatial)
    rhs = word(d.kernel_input_feature, "i", d.kernel_output_feature, "o", d.kernel_spatial)
    result = word(d.output_batch, "b", d.output_feature, "f", d.output_spatial)
    return f"{lhs}_{rhs}->{result}"


def _parse_labels(text: str) -> ConvolutionDimensions:
    match = re.fullmatch(r"([bf\d]+)_([io\d]+)->([bf\d]+)", text)
    if match is None:
        raise ValueError(f"Labels of a convolution are such as b01f_01io->b01f. Received: {text}.")
    lhs, rhs, result = match.groups()
    spatial = [str(index) for index in range(len(lhs) - 2)]
    return ConvolutionDimensions(
        input_batch=lhs.index("b"),
        input_feature=lhs.index("f"),
        input_spatial=tuple(lhs.index(index) for index in spatial),
        kernel_input_feature=rhs.index("i"),
        kernel_output_feature=rhs.index("o"),
        kernel_spatial=tuple(rhs.index(index) for index in spatial),
        output_batch=result.index("b"),
        output_feature=result.index("f"),
        output_spatial=tuple(result.index(index) for index in spatial),
    )
