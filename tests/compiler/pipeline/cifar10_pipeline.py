"""The CIFAR-10 network as a pipeline, for tests."""

from ipu_tf.compiler.compile import compile_program
from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.pipeline.deployment import Deployment
from ipu_tf.machine.target import target
from ipu_tf.tile_program.device_program import DeviceProgram
from tests.compiler import modules

LAYERS = (
    "conv2d",
    "conv2d_1",
    "max_pooling2d",
    "conv2d_2",
    "conv2d_3",
    "max_pooling2d_1",
    "flatten",
    "dense",
    "dense_1",
)
OPTIONS = CompilerOptions(target=target("bow", 64), out_of_memory="report")


def stages_at(*cuts: int) -> dict[str, int]:
    """Returns the stage of every layer, with stages beginning at `cuts`."""
    return {
        f"sequential/{layer}": sum(place >= begin for begin in cuts)
        for place, layer in enumerate(LAYERS)
    }


def compiled(*cuts: int, options: CompilerOptions = OPTIONS, **changes) -> DeviceProgram:
    """Returns the program of the network, with stages beginning at `cuts`."""
    deployment = Deployment(stage_of_layers=stages_at(*cuts), **changes)
    return compile_program(modules.text("cifar10"), options, deployment=deployment)
