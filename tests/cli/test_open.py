"""`ipu-tf open`: a page for the browser of this computer."""

import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from ipu_tf import cli
from ipu_tf.profile.report import Report
from tests.profile.programs import device_program, program

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "report.json"
    Report(programs=(program(device_program()),)).to_json(path)
    return path


@contextlib.contextmanager
def process_of(command):
    """A process that Ctrl-C ends, even if the tests run where it is ignored; it never stays."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGINT, before)
    with process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("suffix", [".json", ".html"])
def test_it_serves_the_page_until_ctrl_c(path, suffix):
    page = path.with_suffix(".html")
    Report.from_json(path).to_html(page)
    command = [sys.executable, "-m", "ipu_tf", "open", str(path.with_suffix(suffix))]
    with process_of(command) as process:
        line = process.stdout.readline()
        address = re.search(r"is at (http://127\.0\.0\.1:\d+/) \(Ctrl-C ends\)", line)[1]
        with urllib.request.urlopen(address, timeout=20) as answer:
            assert answer.read().decode() == page.read_text()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 0


@pytest.mark.slow
def test_the_address_is_data_too(path):
    command = [sys.executable, "-m", "ipu_tf", "open", "--json", str(path)]
    with process_of(command) as process:
        address = json.loads(process.stdout.readline())["address"]
        with urllib.request.urlopen(address, timeout=20) as answer:
            assert answer.status == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 0


def test_a_port_that_is_taken_is_one_line(path, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert cli.main(["open", str(path), "--port", str(port)]) == 2
    assert capsys.readouterr().err == (
        f"error: cannot listen on port {port} of this computer: Address already in use. Name "
        "another port with --port, or leave it out for a free one.\n"
    )


@pytest.mark.parametrize("port", ["65536", "-1", "http"])
def test_ports_are_numbers_of_ports(path, capsys, port):
    with pytest.raises(SystemExit) as exit_:
        cli.main(["open", str(path), f"--port={port}"])
    assert exit_.value.code == 2
    assert "argument --port" in capsys.readouterr().err


def test_pages_that_cannot_be_read_are_one_line(tmp_path, capsys):
    path = tmp_path / "page.html"
    assert cli.main(["open", str(path)]) == 2
    assert capsys.readouterr().err == f"error: cannot read {path}: No such file or directory.\n"
    path.write_bytes(b"\xff\xfe")
    assert cli.main(["open", str(path)]) == 2
    assert f"error: {path} is not the page of a report: " in capsys.readouterr().err
