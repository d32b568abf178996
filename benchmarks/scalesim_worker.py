"""Simulates convolution layers with SCALE-Sim: run it with a Python that has `scalesim`.

Reads a JSON list of layers on its input, [rows, columns, kernel rows, kernel columns, input
channels, output channels, stride] each, and prints {"seconds": ..., "layers": ...}. It imports
nothing of this project. The time is that of the simulation alone, without its imports and the
writing of its input files.
"""

import contextlib
import importlib
import io
import json
import os
import sys
import tempfile
import time
from typing import Any

# The systolic array of the tool's own example: 32 x 32, output stationary, one byte an element.
CONFIGURATION = """\
[general]
run_name = layers
[architecture_presets]
ArrayHeight = 32
ArrayWidth = 32
IfmapSramSzkB = 64
FilterSramSzkB = 64
OfmapSramSzkB = 64
IfmapOffset = 0
FilterOffset = 10000000
OfmapOffset = 20000000
Dataflow = os
Bandwidth = 10
ReadRequestBuffer = 32
WriteRequestBuffer = 32
[layout]
IfmapCustomLayout = False
FilterCustomLayout = False
IfmapSRAMBankBandwidth = 10
IfmapSRAMBankNum = 10
IfmapSRAMBankPort = 2
FilterSRAMBankBandwidth = 10
FilterSRAMBankNum = 10
FilterSRAMBankPort = 2
[sparsity]
SparsitySupport = false
[run_presets]
InterfaceBandwidth = CALC
UseRamulatorTrace = False
"""
HEADER = "Layer,IFMAP Height,IFMAP Width,Filter Height,Filter Width,Channels,Filters,Strides,\n"


def write_inputs(folder: str, layers: list[list[int]]) -> dict[str, str]:
    """Writes the tool's input files and returns their paths by its argument names."""
    rows = [
        f"layer{index}," + "".join(f"{size}," for size in layer)
        for index, layer in enumerate(layers)
    ]
    layout = [f"layer{index}," + "1," * 20 for index in range(len(layers))]
    contents = {
        "config": CONFIGURATION,
        "topology": HEADER + "\n".join(rows) + "\n",
        "layout": "Layer,\n" + "\n".join(layout) + "\n",
    }
    paths = {name: os.path.join(folder, f"{name}.csv") for name in contents}
    for name, path in paths.items():
        with open(path, "w") as file:
            file.write(contents[name])
    return paths


def main() -> None:
    """Simulates the layers on the input and prints the time."""
    layers = json.load(sys.stdin)
    tool: Any = importlib.import_module("scalesim.scale_sim")
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        paths = write_inputs(folder, layers)
        begin = time.perf_counter()
        simulation = tool.scalesim(save_disk_space=True, verbose=False, **paths)
        simulation.run_scale(top_path=folder)
        seconds = time.perf_counter() - begin
    print(json.dumps({"seconds": seconds, "layers": len(layers)}))


if __name__ == "__main__":
    main()
