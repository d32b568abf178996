"""Exports programs as SavedModels, and runs exported programs in this process."""

from ipu_tf.serving.export import export_keras, export_pipeline, export_single_step

__all__ = ["export_keras", "export_pipeline", "export_single_step"]
