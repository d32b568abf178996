"""`ipu-tf estimate FILE.hlo`: modules of other frameworks."""

import json
import subprocess
import sys

import pytest

from ipu_tf import cli
from ipu_tf.compiler.hlo.op_layers import layer_of
from tests.compiler.hlo.test_xla_text import JAX


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "step.hlo"
    path.write_text(JAX)
    return path


def figures(path, capsys, *words):
    assert cli.main(["estimate", str(path), "--json", *words]) == 0
    return json.loads(capsys.readouterr().out)["figures"][0]


def test_a_module_has_a_report(path, capsys):
    assert cli.main(["estimate", str(path), "--batch-size", "4", "--chip", "gc200"]) == 0
    text = capsys.readouterr().out
    assert "Program 'jit_step' on one gc200 IPU" in text
    assert "4 samples a step" in text
    assert "Dense_0" in text


def test_parameters_that_results_replace_stay_on_the_tiles(path, capsys):
    of_category = figures(path, capsys)["ipus"][0]["bytes_by_category"]
    assert of_category["weights"] == 4 * (8 * 2 + 2)
    assert of_category["inputs"] == 4 * 4 * 8
    path.write_text(JAX.replace("input_output_alias", "other"))
    assert figures(path, capsys)["ipus"][0]["bytes_by_category"].get("weights", 0) == 0


def test_other_parameters_stay_on_request(path, capsys):
    before = figures(path, capsys)
    found = figures(path, capsys, "--weights", "0,1-2")
    assert found["ipus"][0]["bytes_by_category"].get("inputs", 0) == 0
    assert found["cycles_by_kind"]["host"] < before["cycles_by_kind"]["host"]


def test_products_have_the_energy_and_the_peak_of_their_type(path, capsys):
    product = (
        "HloModule m\n\nENTRY main {{\n  x = {0}[512,256] parameter(0)\n  w = {0}[256,128] "
        "parameter(1)\n  ROOT y = {0}[512,128] dot(x, w), lhs_contracting_dims={{1}}, "
        "rhs_contracting_dims={{0}}\n}}\n"
    )
    found = {}
    for dtype in ("f32", "f16", "f8e4m3fn"):
        path.write_text(product.format(dtype))
        found[dtype] = figures(path, capsys, "--chip", "c600", "--no-insights")
    flops = 2 * 512 * 256 * 128
    joules = {dtype: each["joules"] / flops * 1e12 for dtype, each in found.items()}
    assert joules == pytest.approx({"f32": 2.5, "f16": 1.3, "f8e4m3fn": 0.5})
    peak = {dtype: each["flop_utilisation"] * each["cycles"] for dtype, each in found.items()}
    assert peak["f32"] == pytest.approx(4 * peak["f16"])
    assert peak["f16"] == pytest.approx(2 * peak["f8e4m3fn"])


@pytest.mark.slow
def test_it_loads_no_tensorflow(path):
    script = (
        "import sys; from ipu_tf.cli import main; main(sys.argv[1:]);"
        "print([n for n in ('tensorflow', 'keras') if n in sys.modules])"
    )
    words = [sys.executable, "-c", script, "estimate", path]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("op_name", "layer"),
    [
        ("jit(step)/jit(main)/jvp(Net)/Dense_0/dot_general", "Net/Dense_0"),
        ("jit(step)/jit(main)/transpose(jvp(Net))/Dense_0/dot_general", "Net/Dense_0"),
        ("jit(f)/add", ""),
        ("add", ""),
        ("", ""),
    ],
)
def test_layers_are_in_the_names_of_operations(op_name, layer):
    assert layer_of(op_name) == layer


def test_transposed_operations_are_of_the_backward_pass(path, capsys):
    path.write_text(JAX.replace("jit(main)/Dense_0", "transpose(jvp(Net))/Dense_0"))
    layers = {layer["layer"]: layer for layer in figures(path, capsys)["layers"]}
    assert layers["Net/Dense_0"]["backward_cycles"] > 0


@pytest.mark.parametrize(
    ("content", "words", "message"),
    [
        (JAX, ["--optimizer", "adam"], "--optimizer is about Keras models: leave it out for the m"),
        (JAX, ["--inference"], "--inference is about Keras models: leave it out for the module"),
        (JAX, ["--ipus", "2"], "runs on one IPU: leave out --ipus and --system. Received: 2 IPUs."),
        (JAX, ["--weights", "a"], "--weights takes numbers such as 0,3-7. Received: 'a'."),
        (JAX, ["--weights", "3"], "the module's 3 parameters, from 0 to 2. Received: '3'."),
        ("no module", [], "step.hlo: A module in HLO text begins with 'HloModule' and has a comp"),
        (
            JAX.replace("sum = ", "sum "),
            [],
            "step.hlo: Line 23 is no line of a module in HLO text: ",
        ),
        (JAX.replace("add = f32[4,2]", "add = f32[4,3]"), [], "step.hlo: "),
        (b"\xff\xfe\x00", [], "step.hlo is no text: "),
        (None, [], "step.hlo: No such file or directory."),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(path, content, words, message, capsys):
    path.unlink()
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert cli.main(["estimate", str(path), *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert message in error


def test_operations_without_a_cost_are_named(path, capsys):
    path.write_text(JAX.replace("add(%p, %b)", 'custom-call(%p, %b), custom_call_target="mine"'))
    assert cli.main(["estimate", str(path)]) == 2
    assert "On the command line: --unsupported warn" in capsys.readouterr().err
    assert cli.main(["estimate", str(path), "--unsupported", "warn"]) == 0


def test_weights_are_numbers_of_modules_alone(capsys):
    assert cli.main(["estimate", "tests.sample_models:mlp", "--weights", "1"]) == 2
    assert capsys.readouterr().err == (
        "error: --weights is about modules in HLO text: name an .hlo file. "
        "Received: 'tests.sample_models:mlp'.\n"
    )
