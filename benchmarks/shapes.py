"""The training shapes of the `ops` benchmark: layers of CIFAR-10's network and of ResNet-50."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer with its batch.

    Attributes:
        name: Its name in the results.
        input: Shape of the input: [batch, features] or [batch, rows, columns, channels].
        weights: Shape of the weights: [features, units] or [rows, columns, channels, filters].
        stride: Stride of a convolution, in both directions.
        padding: Padding of a convolution.
    """

    name: str
    input: tuple[int, ...]
    weights: tuple[int, ...]
    stride: int = 1
    padding: str = "SAME"

    @property
    def is_dense(self) -> bool:
        """Whether the layer is a matrix product."""
        return len(self.weights) == 2

    @property
    def output(self) -> tuple[int, ...]:
        """Shape of the output."""
        if self.is_dense:
            return (self.input[0], self.weights[1])
        margin = 0 if self.padding == "SAME" else self.weights[0] - 1
        rows, columns = (-(-(extent - margin) // self.stride) for extent in self.input[1:3])
        return (self.input[0], rows, columns, self.weights[3])

    @property
    def flop(self) -> int:
        """Floating-point operations of one pass, padding counted as if it were data."""
        total = 2 * self.output[0]
        for extent in (*self.output[1:-1], *self.weights):
            total *= extent
        return total


def _cifar(name: str, size: int, channels: int, filters: int, padding: str) -> Layer:
    return Layer(
        name=f"cifar10/{name}",
        input=(64, size, size, channels),
        weights=(3, 3, channels, filters),
        padding=padding,
    )


def _resnet(kernel: int, size: int, channels: int, filters: int, stride: int = 1) -> Layer:
    suffix = f"/{stride}" if stride > 1 else ""
    return Layer(
        name=f"resnet50/{kernel}x{kernel}{suffix} {channels}->{filters} @{size}",
        input=(8, size, size, channels),
        weights=(kernel, kernel, channels, filters),
        stride=stride,
    )


def _dense(name: str, batch: int, features: int, units: int) -> Layer:
    return Layer(name=name, input=(batch, features), weights=(features, units))


LAYERS = (
    _cifar("conv 3->32 same", 32, 3, 32, "SAME"),
    _cifar("conv 32->32 valid", 32, 32, 32, "VALID"),
    _cifar("conv 32->64 same", 15, 32, 64, "SAME"),
    _cifar("conv 64->32 valid", 15, 64, 32, "VALID"),
    _cifar("conv 64->64 valid", 15, 64, 64, "VALID"),
    _dense("cifar10/dense 1152->512", 64, 1152, 512),
    _dense("cifar10/dense 2304->512", 64, 2304, 512),
    _dense("cifar10/dense 512->10", 64, 512, 10),
    _resnet(7, 224, 3, 64, stride=2),
    _resnet(1, 56, 64, 64),
    _resnet(1, 56, 64, 256),
    _resnet(1, 56, 256, 64),
    _resnet(3, 56, 64, 64),
    _resnet(1, 56, 256, 512, stride=2),
    _resnet(3, 28, 128, 128),
    _resnet(1, 28, 512, 128),
    _resnet(1, 28, 128, 512),
    _resnet(3, 14, 256, 256),
    _resnet(1, 14, 1024, 256),
    _resnet(3, 7, 512, 512),
    _resnet(1, 7, 2048, 512),
    _dense("resnet50/dense 2048->1000", 8, 2048, 1000),
)
