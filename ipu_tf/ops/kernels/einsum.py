"""Reads an einsum equation as a batched matmul if it is one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EinsumLabels:
    """The labels of a two-operand einsum by role.

    Attributes:
        batch: Labels of both operands and the output.
        rows: Labels of the left operand and the output only.
        columns: Labels of the right operand and the output only.
        reduction: Labels of both operands that are summed over.
    """

    batch: str
    rows: str
    columns: str
    reduction: str


class NotAMatMul(ValueError):
    """The equation is not a batched matmul; the message says why."""


def labels_of(equation: str) -> EinsumLabels:
    """Returns the roles of an explicit two-operand equation's labels.

    Args:
        equation: Such as "abc,cde->abde", with an explicit output; an ellipsis counts as a batch
            label, returned as ".".

    Raises:
        NotAMatMul: The equation has one or more than two operands, a repeated label, or a label
            that is summed over in one operand alone.
    """
    inputs, arrow, output = equation.replace(" ", "").replace("...", ".").partition("->")
    operands = inputs.split(",")
    if not arrow or len(operands) != 2:
        raise NotAMatMul(f"einsum '{equation}' does not have two operands and an output")
    left, right = operands
    for part in (left, right, output):
        if len(set(part)) != len(part):
            raise NotAMatMul(f"einsum '{equation}' repeats a label within '{part}'")
    if lonely := (set(left) ^ set(right)) - set(output):
        raise NotAMatMul(f"einsum '{equation}' sums label '{min(lonely)}' over one operand alone")
    if ("." in left) != ("." in right):
        raise NotAMatMul(f"einsum '{equation}' broadcasts the ellipsis of one operand")
    return EinsumLabels(
        batch="".join(c for c in output if c in left and c in right),
        rows="".join(c for c in output if c in left and c not in right),
        columns="".join(c for c in output if c in right and c not in left),
        reduction="".join(c for c in left if c in right and c not in output),
    )


def sizes_of(equation: str, left: list[int], right: list[int]) -> dict[str, int]:
    """Returns the size of every label ("." is the product of the ellipsis' dimensions).

    Raises:
        NotAMatMul: The ellipses of the operands have different shapes (they would broadcast).
        ValueError: A label has two sizes.
    """
    inputs = equation.replace(" ", "").replace("...", ".").partition("->")[0].split(",")
    sizes: dict[str, int] = {}
    ellipses = []
    for labels, shape in zip(inputs, (left, right), strict=True):
        ellipsis_dims = len(shape) - len(labels.replace(".", ""))
        dims = list(shape)
        if "." in labels:
            at = labels.index(".")
            ellipses.append(dims[at : at + ellipsis_dims])
            product = 1
            for size in ellipses[-1]:
                product *= size
            dims[at : at + ellipsis_dims] = [product]
        for label, size in zip(labels, dims, strict=True):
            if sizes.setdefault(label, size) != size and label != ".":
                raise ValueError(
                    f"einsum '{equation}': label '{label}' has sizes {sizes[label]} and {size}."
                )
    if len(ellipses) == 2 and ellipses[0] != ellipses[1]:
        raise NotAMatMul(f"einsum '{equation}' broadcasts its ellipsis")
    return sizes
