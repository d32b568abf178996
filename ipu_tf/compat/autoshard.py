"""`ipu.autoshard` of the vendor's earlier releases, which split a graph over IPUs by itself."""

from __future__ import annotations

from typing import NoReturn


def automatic_sharding(*args: object, **kwargs: object) -> NoReturn:
    """Refuses to shard.

    Raises:
        NotImplementedError: Always.
    """
    raise NotImplementedError(
        "`autoshard.automatic_sharding` does not exist in ipu_tf: no part of a graph is placed by "
        "itself. Place each part with `with ipu.scopes.ipu_shard(i):`, or train a Keras model with "
        "pipeline stages."
    )
