"""Updates of shared variables: each replica computes its share, whatever the group that shares."""

import pytest

from ipu_tf.compiler.hlo import Parameter, parse
from ipu_tf.compiler.hlo.verify import verify
from ipu_tf.compiler.passes.simplify import simplify
from ipu_tf.compiler.pipeline.deployment import Deployment, Offload
from ipu_tf.compiler.pipeline.shared_updates import share_update
from ipu_tf.compiler.pipeline.split import prepared
from ipu_tf.compiler.pipeline.timeline import ReplicaGroup
from tests.compiler import modules
from tests.compiler.pipeline.cifar10_pipeline import compiled
from tests.compiler.pipeline.test_off_chip import parameters, wiring

STATE = Offload(optimizer_state=True, shard_optimizer_state=True)
WEIGHTS = Offload(shard_weights=True)
REPLICAS = 4

SUM = "sum {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b)\n}\n"
ROLES = (("w", "weight", 0), ("m", "optimizer_state", 1), ("g", "link", None))


def update(*more, step="decayed", phase="update"):
    """A module whose weight `w` and state `m` are updated by the gradient `g`.

    Args:
        more: Further instructions of the update.
        step: The value that is taken off the weight.
        phase: The phase that makes the new state.
    """
    made = [line + ', phase="update"' for line in (*more, f"new = f32[8,16] subtract(w, {step})")]
    lines = [
        "w = f32[8,16] parameter(0)",
        "m = f32[8,16] parameter(1)",
        "g = f32[8,16] parameter(2)",
        f'decayed = f32[8,16] add(m, g), phase="{phase}"',
        *made,
        "ROOT results = (f32[8,16], f32[8,16]) tuple(new, decayed)",
    ]
    text = parse(SUM + "ENTRY main {\n" + "\n".join(lines) + "\n}\n")
    parameters = (Parameter(name=name, role=role, updated_by=n) for name, role, n in ROLES)
    module = text.replace(parameters=tuple(parameters))
    verify(module)
    return module


def shared(module, parts=REPLICAS, **changes):
    found = share_update(module, parts, least_bytes=128, **{"shares_weights": False, **changes})
    verify(found.module)
    return found


def types(found):
    return {one.name: str(one.type) for one in found.module.entry_computation}


class TestTheModule:
    def test_all_that_meets_element_by_element_has_the_size_of_a_share(self):
        found = shared(update())
        assert found.variables == {"w", "m"}
        assert found.sums == 0
        sizes = types(found)
        assert sizes["w"] == sizes["g"] == sizes["new.whole"] == "f32[8,16]"
        assert sizes["m"] == sizes["decayed"] == sizes["new"] == "f32[1,32]"
        assert sizes["w.share"] == sizes["g.share"] == "f32[1,32]"
        assert sizes["results"] == "(f32[8,16], f32[1,32])"

    def test_shares_that_do_not_divide_are_rounded_up(self):
        assert types(shared(update(), parts=3))["decayed"] == "f32[1,43]"

    def test_a_sum_over_everything_is_one_of_partial_sums(self):
        found = shared(
            update(
                "zero = f32[] constant(0)",
                "norm = f32[] reduce(decayed, zero), dimensions={0,1}, calls={sum}",
                "wide = f32[8,16] broadcast(norm), dimensions={}",
                "scaled = f32[8,16] multiply(decayed, wide)",
                step="scaled",
            )
        )
        assert found.sums == 1
        assert types(found)["norm"] == "f32[]"
        assert types(found)["scaled"] == "f32[1,32]"

    def test_a_transposed_share_is_a_share(self):
        found = shared(
            update(
                "turned = f32[16,8] transpose(decayed), dimensions={1,0}",
                "twice = f32[16,8] add(turned, turned)",
                "back = f32[8,16] transpose(twice), dimensions={1,0}",
                step="back",
            )
        )
        assert types(found)["twice"] == "f32[1,32]"
        opcodes = {one.name: one.opcode for one in found.module.entry_computation}
        assert opcodes["turned"] == opcodes["back"] == "reshape"

    def test_sums_over_rows_are_computed_whole(self):
        module = update(
            "zero = f32[] constant(0)",
            "rows = f32[8] reduce(decayed, zero), dimensions={1}, calls={sum}",
            "wide = f32[8,16] broadcast(rows), dimensions={0}",
            "scaled = f32[8,16] multiply(decayed, wide)",
            step="scaled",
        )
        found = shared(module)
        assert found.module is module
        assert not found.variables

    def test_state_that_other_passes_read_stays_whole_between_updates(self):
        found = shared(update(phase="backward"))
        assert types(found)["m"] == "f32[8,16]"
        assert types(found)["new"] == "f32[1,32]"

    def test_small_variables_and_single_replicas_are_left_alone(self):
        module = update()
        assert shared(module, parts=1).module is module
        small = share_update(module, 4, least_bytes=1 << 20, shares_weights=False)
        assert small.module is module

    @pytest.mark.parametrize("shares_weights", [False, True])
    def test_a_real_network_stays_well_formed(self, shares_weights):
        module = prepared(simplify(modules.text("cifar10")))
        found = shared(module, shares_weights=shares_weights)
        large = {n for n, p in _large(module) if p in ("weight", "optimizer_state")}
        assert found.variables == large


def _large(module):
    by_number = {
        one.attributes["parameter_number"]: one.type.bytes
        for one in module.entry_computation
        if one.opcode == "parameter"
    }
    for number, parameter in enumerate(module.parameters):
        if by_number[number] >= 128 and parameter.updated_by is not None:
            yield parameter.name, parameter.role


def computed(program):
    """Cycles in which tiles compute new values, of all stages."""
    return sum(
        superstep.compute_cycles
        for step in program.steps
        if step.phase == "update"
        for superstep in step.supersteps
    )


class TestFigures:
    def test_a_replica_computes_its_share_alone(self):
        whole = compiled(5, replicas=REPLICAS, offload=Offload(optimizer_state=True))
        share = compiled(5, replicas=REPLICAS, offload=STATE)
        # Starts of vertices stay; the elements are a quarter.
        assert computed(share) < 0.5 * computed(whole)
        own = share.update_cycles - share.stages[0].streamed.update
        assert own < whole.update_cycles - whole.stages[0].streamed.update

    def test_links_scatter_gradients_and_gather_weights(self):
        share = compiled(5, replicas=REPLICAS, offload=STATE)
        way, summed = wiring(share), parameters("weight", least=0)
        per_stage = [_stage_bytes(stage) for stage in share.stages]
        assert sum(per_stage) == sum(summed)
        most = max(per_stage)
        expected = way.reduce_scatter_cycles(most) + way.all_gather_cycles(most)
        assert share.all_reduce_cycles == expected

    @pytest.mark.fast_cells(1)
    @pytest.mark.parametrize("group", [1, 2, 4])
    def test_smaller_groups_keep_more_and_gather_less(self, group):
        offload = Offload(
            optimizer_state=True, shard_optimizer_state=True, optimizer_state_replicas=group
        )
        program = compiled(5, replicas=REPLICAS, offload=offload)
        states = sum(parameters("optimizer_state"))
        assert program.streaming_bytes / REPLICAS == pytest.approx(states / group, rel=0.01)
        way, most = wiring(program), max(_stage_bytes(stage) for stage in program.stages)
        if group == 1:
            assert program.all_reduce_cycles == way.all_reduce_cycles(most)
            return
        sharing, others = (
            ReplicaGroup(replicas=group),
            ReplicaGroup(replicas=REPLICAS // group, stride=group),
        )
        expected = way.reduce_scatter_cycles(most, sharing) + way.all_gather_cycles(most, sharing)
        assert program.all_reduce_cycles == expected + way.all_reduce_cycles(
            -(-most // group), others
        )

    def test_weights_and_state_have_groups_of_their_own(self):
        both = Offload(
            optimizer_state=True,
            shard_optimizer_state=True,
            shard_weights=True,
            weight_replicas=2,
        )
        program = compiled(5, replicas=REPLICAS, offload=both)
        kept = compiled(5, replicas=REPLICAS)
        weights = [int(p.ipus[0].memory.always_live["weights"].sum()) for p in (program, kept)]
        assert weights[0] == pytest.approx(weights[1] / 2, rel=0.1)
        states = sum(parameters("optimizer_state"))
        assert program.streaming_bytes / REPLICAS == pytest.approx(states / REPLICAS, rel=0.01)
        way, pair = wiring(program), ReplicaGroup(replicas=2)
        gathered = sum(stage.gathered.forward for stage in program.stages)
        assert gathered == sum(way.all_gather_cycles(size, pair) for size in parameters("weight"))
        most = max(_stage_bytes(stage) for stage in kept.stages)
        after = way.all_gather_cycles(-(-most // 2), ReplicaGroup(replicas=2, stride=2))
        everyone = ReplicaGroup(replicas=REPLICAS)
        assert program.all_reduce_cycles == way.reduce_scatter_cycles(most, everyone) + after

    @pytest.mark.parametrize(
        ("offload", "message"),
        [
            (
                Offload(shard_weights=True, weight_replicas=3),
                r"Offload\.weight_replicas must divide the 4 replicas, or be 0.*Received: 3\.",
            ),
            (
                Offload(
                    optimizer_state=True, shard_optimizer_state=True, optimizer_state_replicas=-2
                ),
                r"optimizer_state_replicas must divide the 4 replicas.*Received: -2\.",
            ),
        ],
    )
    def test_groups_that_do_not_divide_are_errors(self, offload, message):
        with pytest.raises(ValueError, match=message):
            Deployment(stage_of_layers={"": 0}, replicas=4, offload=offload)

    def test_groups_that_do_not_nest_are_errors(self):
        offload = Offload(
            optimizer_state=True,
            shard_optimizer_state=True,
            optimizer_state_replicas=3,
            shard_weights=True,
            weight_replicas=2,
        )
        with pytest.raises(ValueError, match="must consist of whole groups of the 2"):
            Deployment(stage_of_layers={"": 0}, replicas=6, offload=offload)


def _stage_bytes(stage):
    """Bytes of the weights of a stage, all of which have new values."""
    return sum(tensor.bytes for tensor in stage.program.tensors if tensor.category == "weights")
