"""Systems: a number of IPUs of a chip, with their connections to each other and to a host.

IPUs are numbered board by board: 0 and 1 share a board, 0 and 2 are neighbours on one rail of the
ladder. Models the ladder of a C2 server, two such servers over Ethernet, and the two rails of a
Pod, closed to a ring within 64 IPUs. Does not model which physical slots a partition gets.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ipu_tf.machine.link_timing import (
    C2_HOST,
    C2_LINKS,
    C2_SERVER_LINKS,
    C600_HOST,
    NO_STREAMING,
    POD_HOST,
    POD_LINKS,
    POD_STREAMING,
    HostTiming,
    LinkTiming,
    StreamingTiming,
)
from ipu_tf.machine.target import CHIPS, Target, target

IPUS_PER_BOARD = 2
"""Number of IPUs with the most links between them: a C2 card, or a pair within an IPU-Machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """Some IPUs and their connections.

    Attributes:
        name: Such as "bow-pod16".
        target: The chip of every IPU.
        ipus: Number of IPUs.
        ipus_per_machine: IPUs of one chassis or card that is sold as a whole.
        ipus_per_link_domain: IPUs that IPU-Links connect; gateways connect further ones.
        ring: Whether the rails of a link domain close to a ring.
        links: Links between IPUs; None for a single one.
        host: The way to host memory.
        streaming: Memory beside the IPUs.
        phased_collectives: Whether collectives go both ways round, and across gateways in a phase
            of their own. Modelled: not on Pods, where published updates take longer than that.
    """

    name: str
    target: Target
    ipus: int
    ipus_per_machine: int
    ipus_per_link_domain: int
    ring: bool
    links: LinkTiming | None
    host: HostTiming
    streaming: StreamingTiming
    phased_collectives: bool = False

    def __post_init__(self) -> None:
        for count in ("ipus", "ipus_per_machine", "ipus_per_link_domain"):
            value = getattr(self, count)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"System.{count} must be a positive int. Received: {value!r}.")
        for part, kind in _PARTS.items():
            value = getattr(self, part)
            if not isinstance(value, kind):
                raise ValueError(f"System.{part} must be a {kind.__name__}. Received: {value!r}.")
        self._check_links()

    def _check_links(self) -> None:
        """Checks that there are links between all IPUs."""
        if not isinstance(self.links, LinkTiming | None):
            raise ValueError(
                f"System.links must be a LinkTiming, or None. Received: {self.links!r}."
            )
        if self.ipus == 1:
            return
        if self.links is None:
            raise ValueError(
                f"System {self.name!r} has {self.ipus} IPUs and no links between them. "
                "Give it `links`, or one IPU. Received: links=None."
            )
        if self.ipus > self.ipus_per_link_domain and not self.links.gateway_bytes_per_second:
            raise ValueError(
                f"System {self.name!r} has {self.ipus} IPUs in link domains of "
                f"{self.ipus_per_link_domain} and no gateways between them. Give its `links` a "
                "gateway_bytes_per_second, or join all IPUs in one domain. "
                f"Received: ipus_per_link_domain={self.ipus_per_link_domain!r}."
            )
        domain = self.ipus_per_link_domain
        if self.phased_collectives and domain & (domain - 1):
            raise ValueError(
                f"System {self.name!r} has phased collectives, so its link domains need a power of "
                f"two of IPUs. Received: ipus_per_link_domain={domain!r}."
            )

    def check_ipus(self, ipus: int) -> None:
        """Checks a number of IPUs to use.

        Raises:
            ValueError: It is not a power of two, or more than the system has.
        """
        if isinstance(ipus, bool) or not isinstance(ipus, int) or ipus < 1 or ipus & (ipus - 1):
            raise ValueError(
                "IPUs are used in powers of two: 1, 2, 4 and so on up to the "
                f"{self.ipus} of {self.name}. Received: {ipus!r}."
            )
        if ipus > self.ipus:
            raise ValueError(
                f"{self.name} has {self.ipus} IPUs. Use a larger system, or fewer IPUs. "
                f"Received: {ipus!r}."
            )


_PARTS = {
    "name": str,
    "target": Target,
    "ring": bool,
    "phased_collectives": bool,
    "host": HostTiming,
    "streaming": StreamingTiming,
}


def _pod(chip: str, ipus: int) -> System:
    name = {"gc200": "pod", "bow": "bow-pod"}[chip]
    machine = {"gc200": "m2000", "bow": "bow-2000"}[chip]
    return System(
        name=machine if ipus == 4 else f"{name}{ipus}",
        target=CHIPS[chip],
        ipus=ipus,
        ipus_per_machine=4,
        ipus_per_link_domain=min(ipus, 64),  # DECK: a torus of IPU-Links within 64 IPUs
        ring=ipus >= 64,
        links=POD_LINKS,
        host=POD_HOST,
        streaming=POD_STREAMING,
    )


def _c2(name: str, ipus: int, servers: int = 1) -> System:
    return System(
        name=name,
        target=CHIPS["gc2"],
        ipus=servers * ipus,
        ipus_per_machine=2 if servers == 1 else ipus,
        ipus_per_link_domain=ipus,
        ring=False,  # CIT 2.1: the ladder does not wrap around
        links=C2_LINKS if servers == 1 else C2_SERVER_LINKS,
        host=C2_HOST,
        streaming=NO_STREAMING,
        phased_collectives=True,
    )


_POD_SIZES = (4, 16, 32, 64, 128, 256, 1024)  # DECK: 1024 as an early access
_ALL = (
    _c2("c2", 2),
    _c2("dss8440", 16),
    _c2("dss8440x2", 16, servers=2),  # modelled: no published measurement of it is known
    *(_pod(chip, ipus) for chip in ("gc200", "bow") for ipus in _POD_SIZES),
    System(
        name="c600",
        target=CHIPS["c600"],
        ipus=1,
        ipus_per_machine=1,
        ipus_per_link_domain=1,
        ring=False,
        links=None,
        host=C600_HOST,
        streaming=NO_STREAMING,
    ),
)
SYSTEMS: dict[str, System] = {system.name: system for system in _ALL}
_ALIASES = {"pod4": "m2000", "bow-pod4": "bow-2000"}


def system(name: str) -> System:
    """Returns a system by its name.

    Args:
        name: A key of `SYSTEMS`, such as "c2", "m2000", "bow-2000", "pod16" or "bow-pod64".

    Raises:
        ValueError: No system has that name.
    """
    system = SYSTEMS.get(_ALIASES.get(name, name))
    if system is None:
        names = ", ".join([*SYSTEMS, *_ALIASES])
        raise ValueError(f"Unknown system. Choose one of {names}. Received: {name!r}.")
    return system


def system_of(machine: str | Target | System, ipus: int = 1) -> System:
    """Returns a system with at least so many IPUs of a chip.

    Args:
        machine: A system, which is returned as it is; or a target, for the smallest of `SYSTEMS`
            with chips of its name, with that target in place of theirs; or only the name.
        ipus: Number of IPUs that are wanted.

    Raises:
        ValueError: The chip is unknown, or no system of it is that large.
    """
    if isinstance(ipus, bool) or not isinstance(ipus, int) or ipus < 1:
        raise ValueError(f"`ipus` must be a positive int. Received: {ipus!r}.")
    if isinstance(machine, System):
        chip, of_chip = machine.target, [machine]
    else:
        chip = target(machine)
        of_chip = [one for one in SYSTEMS.values() if one.target.chip == chip.chip]
    if not of_chip:
        raise ValueError(
            f"No known system has {chip.chip!r} IPUs, so their connections to a host and to each "
            "other are unknown. Give a System in place of the target, such as "
            "dataclasses.replace(ipu_tf.machine.system('bow-2000'), name='mine', target=...). "
            f"Received: a Target named {chip.chip!r}."
        )
    large_enough = [one for one in of_chip if one.ipus >= ipus]
    if not large_enough:
        sizes = ", ".join(f"{one.name} ({one.ipus})" for one in of_chip)
        raise ValueError(
            f"No system has {ipus} {chip.chip} IPUs. Choose at most the IPUs of one of: {sizes}. "
            f"Received: {ipus!r}."
        )
    smallest = min(large_enough, key=lambda one: one.ipus)
    return dataclasses.replace(smallest, target=chip)
