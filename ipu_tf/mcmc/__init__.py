"""Markov chain Monte Carlo of TensorFlow Probability on replicas, in blocks that resume."""

try:
    import tensorflow_probability
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "`ipu_tf.mcmc` needs TensorFlow Probability. Install it: pip install "
        f"'tensorflow-probability[tf]'. Received: {error}",
        name=error.name,
    ) from error
else:
    del tensorflow_probability

from ipu_tf.mcmc.chain_files import ChainMismatch, DamagedChains
from ipu_tf.mcmc.directory_lock import ChainsInUse
from ipu_tf.mcmc.inference_data import to_arviz
from ipu_tf.mcmc.kernel_results import statistics
from ipu_tf.mcmc.sample_chain import sample_chain

__all__ = [
    "ChainMismatch",
    "ChainsInUse",
    "DamagedChains",
    "sample_chain",
    "statistics",
    "to_arviz",
]
