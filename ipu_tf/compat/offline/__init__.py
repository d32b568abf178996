"""Generated data in place of downloads, for scripts that are tried without a network."""

from ipu_tf.compat.offline.downloads import way_out, without_downloads

__all__ = ["way_out", "without_downloads"]
