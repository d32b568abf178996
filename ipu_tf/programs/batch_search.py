"""Chooses the numbers of samples to try on the way to the largest micro-batch that fits."""

from __future__ import annotations

from ipu_tf.tile_program.device_program import DeviceProgram

_MOST_TRIES = 7

_HALF = 0.5

_GROWTH = 8
"""How many times as many samples as the last that fit are tried at most: memory is not quite linear
in the samples."""

_MOST_SAMPLES = 1024
"""The most samples of a micro-batch that are tried, or twice the samples of one that has more:
few datasets and few learning rates allow more."""

_KEPT_BITS = 4
"""Leading binary digits of a number of samples: 8, 9, ..., 16, 18, ..., 32, 36, ..."""


class BatchSearch:
    """Finds the largest micro-batch that fits, by the memory of those that are known.

    The fullest tile grows about linearly with the samples, so two programs predict the samples that
    fill it; each further program corrects the prediction.

    Args:
        now: The program as it is.
    """

    def __init__(self, now: DeviceProgram) -> None:
        self._first = now.samples_per_run
        self._most = max(_MOST_SAMPLES, 2 * self._first)
        self._programs = {now.samples_per_run: now}

    def add(self, samples: int, program: DeviceProgram) -> None:
        """Takes the program of some samples."""
        self._programs[samples] = program

    def next_samples(self) -> int | None:
        """Returns the samples to try next; None if the search has ended."""
        if len(self._programs) > _MOST_TRIES:
            return None
        most = max((n for n, p in self._programs.items() if p.fits), default=0)
        too_many = min((n for n, p in self._programs.items() if not p.fits), default=None)
        if len(self._programs) == 1:
            samples = self._first // 2 if most == 0 else self._first_guess()
        else:
            samples = _round(self._prediction(most, too_many))
            if too_many is None:
                # A prediction that is known already is a little too small.
                samples = min(max(samples, _next_round(most)), _GROWTH * most)
            elif not most < samples < too_many:
                samples = _round((most + too_many) // 2)
        samples = min(samples, self._most)
        return samples if samples and samples not in self._programs and samples > most else None

    def _first_guess(self) -> int:
        """Returns the samples with which the fullest tile is full if all that passes grows."""
        memory = self._programs[self._first].memory
        tile = memory.fullest_tile
        always = sum(int(values[tile]) for values in memory.always_live.values())
        sample_bytes = max(1, int(memory.peak_tile_bytes[tile]) - always)
        samples = _round(int(self._first * (memory.limit_bytes - always) / sample_bytes + _HALF))
        return min(max(samples, _next_round(self._first)), _GROWTH * self._first)

    def _prediction(self, most: int, too_many: int | None) -> int:
        """Returns the samples with which the fullest tile is full, from the two nearest known."""
        counts = sorted(self._programs)
        near = [n for n in (most, too_many) if n]
        a, b = near if len(near) == 2 else counts[-2:] if too_many is None else counts[:2]
        bytes_a, bytes_b = _peak_bytes(self._programs[a]), _peak_bytes(self._programs[b])
        limit = self._programs[a].memory.limit_bytes
        if bytes_b <= bytes_a:
            return _GROWTH * b
        return a + (limit - bytes_a) * (b - a) // (bytes_b - bytes_a)


def _peak_bytes(program: DeviceProgram) -> int:
    return int(program.memory.peak_tile_bytes.max(initial=0))


def _next_round(samples: int) -> int:
    """Returns the next round number."""
    return _round(samples + (1 << max(0, samples.bit_length() - _KEPT_BITS)))


def _round(samples: int) -> int:
    """Returns the largest round number that is at most this one."""
    if samples <= 0:
        return 0
    return samples >> (shift := max(0, samples.bit_length() - _KEPT_BITS)) << shift
