"""The page of a report: what it holds, and that nothing leaves or enters it."""

import dataclasses

import numpy as np
import pytest

from ipu_tf.compiler.hlo import Phase
from ipu_tf.profile.figures import program_figures as figures
from ipu_tf.profile.report import Report
from ipu_tf.programs.program import Program
from tests.profile.html.pages import SCRIPT_END, data, elements, policy, source
from tests.profile.programs import device_program, fault, overflowing, program

NASTY = (
    SCRIPT_END,
    "<img src=x onerror=alert(1)>",
    "\"quoted' & &amp;",
    "層\u2028\u0000",
    "a%%DATA%%b",
)
"""Names of layers that could do harm."""


@pytest.fixture
def write(tmp_path):
    """Returns the page of programs."""

    def written(*programs, **others):
        path = tmp_path / "report.html"
        Report(programs=programs, **others).to_html(path)
        return path.read_text(encoding="utf-8")

    return written


def named(name):
    """A program in which everything that can have a name has this one."""
    device = device_program()
    (stage,) = device.stages
    steps = tuple(
        dataclasses.replace(step, name=name, layer=name, op_name=name, opcode=name)
        for step in stage.program.steps
    )
    tensors = tuple(
        dataclasses.replace(tensor, name=name, layer=name) for tensor in stage.program.tensors
    )
    device = device_program(
        steps=steps, tensors=tensors, notes=(name,), unsupported={name: (name,)}
    )
    traced = program(device)
    traced.name = name
    traced.tile_ops = [dataclasses.replace(op, name=name, layer=name) for op in traced.tile_ops]
    traced.native_ops = [
        dataclasses.replace(op, layer=name, reason=name) for op in traced.native_ops
    ]
    traced.nonfinite.append(fault(name))
    return traced


def test_a_fault_is_part_of_the_data(write):
    (found,) = data(write(named("a")))["programs"][0]["nonfinite"]
    assert found["title"] == "first value that is not finite: overflow in layer 'net/dense'"
    assert found["tensors"][2] == ["result 0", "float16[6, 10]", "1", "3e+38", 0, 1, 0]
    assert found["operands"] == ["a/x", "a/kernel"]
    assert found["sizes"][0] == ["0", [1, 0]]


def test_the_browser_may_run_the_scripts_of_the_page_alone_and_ask_for_nothing(write):
    page = write(program(device_program()))
    scripts = [script for script in elements(page, "script") if "type" not in script.attributes]
    (style,) = elements(page, "style")
    allowed = " ".join(source(script.text) for script in scripts)
    assert len(scripts) == 2
    assert policy(page) == (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
        f"style-src {source(style.text)}; script-src {allowed}"
    )


def test_no_element_names_a_file_elsewhere(write):
    for element in elements(write(program(device_program()))):
        for name in ("src", "href", "srcset", "action", "data", "poster"):
            assert element.attributes.get(name) in (None, "data:,"), element
        assert "style" not in element.attributes
        assert not any(attribute.startswith("on") for attribute in element.attributes)


def test_the_page_names_the_licences_of_the_charts(write):
    page = write(program(device_program()))
    assert "Apache ECharts 6.1.0: the charts of this report" in page
    licences = data(page)["licences"]
    assert "Apache License" in licences
    assert "This product includes software developed at\nThe Apache Software Foundation" in licences
    for holder in ("Mike Bostock", "Baidu Inc.", "Microsoft Corporation"):
        assert holder in licences


@pytest.mark.parametrize("name", NASTY)
def test_names_do_not_become_markup(write, name):
    traced = named(name)
    page = write(traced, notes=(name,))
    plain = write(program(device_program()))
    assert [element.tag for element in elements(page)] == [
        element.tag for element in elements(plain)
    ]
    (found,) = data(page)["programs"]
    assert found["name"] == name
    assert name in found["device"]["texts"]
    assert found["device"]["notes"] == [name]
    assert data(page)["notes"] == [name]
    (title,) = elements(page, "title")
    assert title.text.replace("\ufffd", "\u0000").startswith(name)


def test_without_scripts_the_page_shows_the_text_report(write):
    report = Report(programs=(named("<b>"),))
    (text,) = elements(write(*report.programs), "pre")
    assert text.text == report.summary()


@pytest.mark.parametrize("device", [device_program(), overflowing()])
def test_columns_add_up_to_the_figures(write, device):
    (found,) = data(write(program(device)))["programs"]
    (stage,) = found["device"]["stages"]
    steps, supersteps = stage["steps"], stage["supersteps"]
    assert sum(steps["supersteps"]) == len(supersteps["name"])
    repeats = np.repeat(steps["repeats"], steps["supersteps"])
    shares = figures.cycle_shares(device)
    for kind in ("compute", "exchange", "sync", "host"):
        assert (repeats * supersteps[kind]).sum() == getattr(shares, kind)
    assert np.dot(steps["repeats"], steps["flops"]) == figures.flops(device)
    (ipu,) = found["device"]["ipus"]
    bytes_of_runs = sum(
        value * tiles
        for name in ("alwaysLive", "atPeak")
        for _, runs in ipu[name]
        for value, tiles in zip(runs[::2], runs[1::2], strict=True)
    )
    assert bytes_of_runs == figures.tile_bytes(device.memory).sum()
    assert bool(ipu["advice"]) == (not device.fits)


def test_a_page_without_programs_says_so(write):
    page = write()
    assert data(page)["programs"] == []
    assert elements(page, "pre")[0].text.startswith("No program has been traced")


def test_programs_without_figures_have_their_reason(write):
    page = write(Program(name="f", refusal="where is not static"))
    (found,) = data(page)["programs"]
    assert found["device"] is None
    assert found["refusal"] == "where is not static"


def test_an_empty_program_has_no_steps(write):
    memory = dataclasses.replace(
        device_program().memory, live_bytes=np.zeros(0, int), max_tile_bytes=np.zeros(0, int)
    )
    device = device_program(steps=(), tensors=(), memory=memory, samples_per_run=0)
    (found,) = data(write(program(device)))["programs"]
    assert found["device"]["stages"][0]["steps"]["name"] == []


def test_a_pipeline_has_its_slots(write):
    from tests.profile.test_timeline import pipeline

    found = data(write(program(pipeline(2, 3))))["programs"][0]["device"]["pipeline"]
    assert found["slots"][0] == [[0, 0, 0]]
    assert found["slots"][1] == [[0, 0, 1], [1, 0, 0]]
    passes = [work for slot in found["slots"] for work in slot]
    assert len(passes) == 2 * 2 * 3


def many_layers(count):
    """A program of many layers with a step each."""
    (stage,) = device_program().stages
    step, tensor = stage.program.steps[1], stage.program.tensors[1]
    names = [f"net/block_{number // 100}/dense_{number}" for number in range(count)]
    phases: tuple[Phase, ...] = ("forward", "backward", "update")
    steps = tuple(
        dataclasses.replace(step, name=f"dot.{number}", layer=name, phase=phases[number % 3])
        for number, name in enumerate(names)
    )
    tensors = tuple(
        dataclasses.replace(tensor, name=name, layer=name, first_step=number, last_step=number)
        for number, name in enumerate(names)
    )
    memory = dataclasses.replace(
        stage.program.memory,
        live_bytes=np.full(count, 260),
        max_tile_bytes=np.full(count, 85),
    )
    return device_program(steps=steps, tensors=tensors, memory=memory)


@pytest.mark.slow
def test_ten_thousand_layers_stay_small(write):
    page = write(program(many_layers(10_000)))
    assert len(page) < 3_000_000
    assert len(data(page)["programs"][0]["device"]["stages"][0]["steps"]["name"]) == 10_000


def test_equal_reports_are_equal_pages(write):
    assert write(program(device_program())) == write(program(device_program()))
