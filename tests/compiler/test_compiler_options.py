"""The compiler's options, and their checks."""

import dataclasses

import pytest

from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.machine import SYSTEMS, target
from tests.sample_machines import ALONE, LARGE, PAIR


def test_without_a_system_it_is_the_smallest_of_the_chip():
    options = CompilerOptions(target=target("gc200", 12))
    assert options.system_of(5) == dataclasses.replace(SYSTEMS["pod16"], target=options.target)
    assert CompilerOptions(target=LARGE).system_of().target == LARGE


def test_a_system_keeps_its_links_and_has_the_tiles_of_the_target():
    some = target(ALONE, 12)
    options = CompilerOptions(target=some, system=PAIR)
    assert options.system_of(2) == dataclasses.replace(PAIR, target=some)
    with pytest.raises(ValueError, match=r"No system has 4 own IPUs.*own pair \(2\)"):
        options.system_of(4)


def test_a_new_name_has_no_system():
    with pytest.raises(ValueError, match="No known system has 'own' IPUs"):
        CompilerOptions(target=ALONE).system_of()


def test_a_system_of_other_chips_is_refused():
    message = r"CompilerOptions\.system must have the bow chips of `target`.*'own pair', of own"
    with pytest.raises(ValueError, match=message):
        CompilerOptions(system=PAIR)
