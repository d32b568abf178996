"""docs/machines.md: its scripts run as they are printed there, its table is that of the machine."""

import re
from pathlib import Path

import pytest

from ipu_tf.config.resolve import resolve
from ipu_tf.machine import CHIPS, SYSTEMS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "machines.md"


def run(number):
    """Runs a script of the page; returns its variables."""
    script = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[number]
    variables = {}
    exec(compile(script, str(PAGE), "exec"), variables)
    return variables


@pytest.mark.slow
def test_what_if_the_chip_were_another(capsys):
    machines = run(0)["machines"]
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == list(machines)
    found = [re.search(r": ([\d,]+) cycles, (\d+)%", line) for line in lines]
    cycles = [int(match[1].replace(",", "")) for match in found]
    shares = [int(match[2]) for match in found]
    real, roomier, larger, faster = range(4)
    assert cycles[roomier] == cycles[real]
    assert shares[roomier] < shares[real]
    assert max(cycles[larger], cycles[faster]) < cycles[real]


def test_a_system_of_ones_own():
    variables = run(1)
    device = resolve(variables["cfg"])
    assert device.system.name == "pod16x"
    assert device.target == variables["chip"]
    assert device.system.links.link_bytes_per_second == 2 * 16e9
    assert device.num_ipus == (4,)


def test_the_table_has_every_chip_and_system():
    rows = re.findall(
        r'^\| "(\w+)" \| ([\d,]+) \| (\d+) KiB \| ([\d.]+) GHz \| (.*) \|$', PAGE.read_text(), re.M
    )
    assert [row[0] for row in rows] == list(CHIPS)
    for name, tiles, kib, ghz, systems in rows:
        chip = CHIPS[name]
        assert int(tiles.replace(",", "")) == chip.tiles
        assert int(kib) * 1024 == chip.tile_bytes
        assert float(ghz) * 1e9 == chip.clock_hz
        known = [one.name for one in SYSTEMS.values() if one.target == chip]
        assert re.findall(r"[a-z][\w-]+", systems) == known
