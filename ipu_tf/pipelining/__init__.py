"""Pipelines of stage functions, for programs without Keras: `pipeline` and its results."""

from ipu_tf.pipelining.optimizer_output import OptimizerFunctionOutput
from ipu_tf.pipelining.pipeline import pipeline

__all__ = ["OptimizerFunctionOutput", "pipeline"]
