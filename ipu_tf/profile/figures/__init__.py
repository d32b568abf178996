"""The figures of reports: sums over device programs, energy, the host's time."""
