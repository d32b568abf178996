"""Caches the costs of vertices: a program needs the same few again and again."""

from __future__ import annotations

from functools import lru_cache

from ipu_tf.machine import vertices

_CACHED_VERTICES = 1 << 13

elementwise = lru_cache(_CACHED_VERTICES)(vertices.elementwise)
by_channels = lru_cache(_CACHED_VERTICES)(vertices.by_channels)
by_rows = lru_cache(_CACHED_VERTICES)(vertices.by_rows)
fused = lru_cache(_CACHED_VERTICES)(vertices.fused)
convert = lru_cache(_CACHED_VERTICES)(vertices.convert)
fill = lru_cache(_CACHED_VERTICES)(vertices.fill)
iota = lru_cache(_CACHED_VERTICES)(vertices.iota)
copy = lru_cache(_CACHED_VERTICES)(vertices.copy)
reduce = lru_cache(_CACHED_VERTICES)(vertices.reduce)
dynamic_slice = lru_cache(_CACHED_VERTICES)(vertices.dynamic_slice)
dynamic_update = lru_cache(_CACHED_VERTICES)(vertices.dynamic_update)
