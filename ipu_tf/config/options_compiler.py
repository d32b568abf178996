"""Options that change how a program is compiled, not what it computes."""

from __future__ import annotations

from ipu_tf.config.category import Category
from ipu_tf.config.declaration import deprecate_config_attribute, option
from ipu_tf.config.enums import MergeRemoteBuffersBehaviour, SchedulingAlgorithm


class MathOptimizations(Category):
    """Rewrites of arithmetic."""

    fast: bool = option(False, "Allow rewrites that change rounding.")
    dot_strength: bool = option(True, "Replace small matmuls by multiplications and sums.")


@deprecate_config_attribute("enable_fast_math", "Use optimizations.math.fast instead.")
class Optimizations(Category):
    """Optimisations of the compiler."""

    math: MathOptimizations
    prefetch_data_streams: bool = option(True, "Fetch streamed data ahead of its use.")
    combine_embedding_lookups: bool = option(False, "Combine look-ups in the same table.")
    combine_matmuls: bool = option(False, "Combine matmuls that share an operand.")
    enable_graph_outlining: bool = option(
        True,
        "Share the code of equal operations.",
        "Equal operations share vertices and exchange code in the memory of a program; copies "
        "bring operands to the code where that pays.",
    )
    merge_infeed_io_copies: bool = option(True, "Copy all tensors of an infeed in one transfer.")
    maximum_cross_replica_sum_buffer_size: int = option(
        0, "Bytes of cross-replica sums that are merged into one."
    )
    maximum_reduce_scatter_buffer_size: int = option(
        0, "Bytes of reduce-scatters that are merged into one transfer."
    )
    maximum_inter_ipu_copies_buffer_size: int = option(
        0, "Bytes of copies between IPUs that are merged into one transfer."
    )
    maximum_send_recv_cluster_size: int = option(
        0, "Bytes of transfers to and from the host that are merged into one transfer."
    )
    maximum_reduce_many_buffer_size: int = option(
        0, "Bytes of reductions that are merged into one."
    )
    maximum_all_gather_buffer_size: int = option(
        0, "Bytes of all-gathers that are merged into one transfer."
    )
    minimum_remote_tensor_size: int = option(
        128, "Smallest size in bytes of a tensor that may be in streaming memory."
    )
    merge_remote_buffers: MergeRemoteBuffersBehaviour = option(
        MergeRemoteBuffersBehaviour.IF_BENEFICIAL,
        "Merge buffers of the same shape in streaming memory.",
    )
    enable_gather_simplifier: bool = option(True, "Simplify look-ups in embeddings.")
    triangular_solve_expander_block_size: int = option(
        0,
        "Rows of a block of the triangular solver; 0 leaves the choice to the compiler.",
        "Sets the size of the blocks in the cost of the operation; the default is 64.",
    )
    cholesky_block_size: int = option(
        0,
        "Rows of a block of the Cholesky factorisation; 0 leaves the choice to the compiler.",
        "Sets the size of the blocks in the cost of the operation; the default is 64.",
    )
    enable_fast_math: bool = option(False, "Old name of `optimizations.math.fast`.")
    enable_dynamic_slice_replacement: bool = option(
        True, "Replace dynamic slices by static ones if their position is known."
    )


class Scheduling(Category):
    """The order of operations."""

    algorithm: SchedulingAlgorithm = option(
        SchedulingAlgorithm.CHOOSE_BEST,
        "Algorithm that orders operations; CHOOSE_BEST tries several and takes the least memory.",
    )
    maximum_scheduler_lookahead_depth: int = option(
        5, "Steps that the LOOK_AHEAD algorithm looks ahead."
    )
    maximum_scheduler_search_space_size: int = option(
        64, "Schedules that the LOOK_AHEAD algorithm considers."
    )
