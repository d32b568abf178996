"""Samples in an instance of a job; instance 0 writes all draws to a file.

Usage: job_script.py DIRECTORY FILE [SECOND]; instance 1 kills itself once block SECOND is written.
"""

import os
import signal
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np

from ipu_tf import IPUConfig
from ipu_tf.distributed.popdist_strategy import PopDistStrategy
from ipu_tf.processes.instances import instances

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from ipu_tf import mcmc
    from tests.mcmc.test_sample_chain import OPTIONS, STATE, accepted, hmc


def kill_after(block):
    while not block.exists():
        time.sleep(0.005)
    os.kill(os.getpid(), signal.SIGKILL)


directory, file, *killed = sys.argv[1:]
job = instances()
if killed and job.index == 1:
    block = Path(directory) / f"block_{int(killed[0]):06d}.npz"
    threading.Thread(target=kill_after, args=(block,), daemon=True).start()
cfg = IPUConfig()
cfg.auto_select_ipus = job.local_replicas
cfg.ipu_model.tiles_per_ipu = 16
cfg.simulator.engine = "graph"
cfg.configure_ipu_system()
with PopDistStrategy().scope():
    options = OPTIONS | {"num_results": 40 if killed else 8, "seed": None if killed else [0, 5]}
    found = mcmc.sample_chain(
        current_state=STATE,
        kernel=hmc(),
        trace_fn=accepted,
        block_size=2,
        directory=None if directory == "none" else directory,
        num_replicas=4,
        **options,
    )
assert found.all_states.shape[:2] == (options["num_results"], 4)
np.savez(f"{file}-{job.index}.npz", states=found.all_states, trace=found.trace)
