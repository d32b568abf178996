"""The words of reports for what programs are made from: TensorFlow, or graphs of Poplar."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ipu_tf.profile.figures.program_figures import PHASES
from ipu_tf.tile_program.phase import Phase
from ipu_tf.tile_program.program import Front


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What reports call the parts of a program.

    Attributes:
        place: What a step belongs to.
        owner: What a tensor belongs to.
        run: One run of the program.
        phases: The parts of a run that steps are in; none if it has no parts.
    """

    place: str
    owner: str
    run: str
    phases: tuple[Phase, ...]


WORDS: Mapping[Front, Words] = {
    "tensorflow": Words(place="layer", owner="layer", run="step", phases=PHASES),
    "poplar": Words(place="compute set", owner="variable", run="run", phases=()),
}
