"""Orders of tasks: valid, deterministic, and lean."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipu_tf.compiler.task_schedule import Task, TaskGraph, peak_bytes, schedule


@st.composite
def graphs(draw):
    """Random graphs: every task reads some earlier buffers and makes up to two."""
    starting = draw(st.integers(0, 2))
    sizes = [draw(st.integers(0, 50)) for _ in range(starting)]
    made_by = {}
    tasks = []
    for index in range(draw(st.integers(1, 14))):
        count = draw(st.integers(0, min(3, len(sizes))))
        reads = (
            draw(st.sets(st.integers(0, len(sizes) - 1), min_size=count, max_size=count))
            if (sizes)
            else set()
        )
        reads = tuple(sorted(reads))
        writes = tuple(range(len(sizes), len(sizes) + draw(st.integers(0, 2))))
        sizes += [draw(st.integers(0, 50)) for _ in writes]
        takes_over = ()
        if reads and writes and draw(st.booleans()):
            takes_over = reads[:1]
            sizes[writes[0]] = sizes[reads[0]]
        made_by.update(dict.fromkeys(writes, index))
        tasks.append(
            Task(
                after=tuple(sorted({made_by[b] for b in reads if b in made_by})),
                reads=reads,
                writes=writes,
                takes_over=takes_over,
                temporary_bytes=draw(st.integers(0, 20)),
            )
        )
    kept = frozenset(draw(st.sets(st.integers(0, len(sizes) - 1), max_size=3))) if sizes else ()
    return TaskGraph(tasks=tuple(tasks), buffer_bytes=tuple(sizes), live_at_end=frozenset(kept))


def live_sets(graph, order):
    """The buffers in memory during each task, found the slow way."""
    position = {task: place for place, task in enumerate(order)}
    made_by = graph.writers()
    readers = graph.readers()
    dead_weight = set()  # buffers whose memory went on as another buffer's
    for index in order:
        task = graph.tasks[index]
        if not task.takes_over or task.takes_over[0] in graph.live_at_end:
            continue
        (taken,) = task.takes_over
        if max(position[reader] for reader in readers[taken]) == position[index]:
            dead_weight.add((taken, position[index]))
    for place in range(len(order)):
        live = set()
        for buffer in range(len(graph.buffer_bytes)):
            first = position[made_by[buffer]] if buffer in made_by else -1
            last = max([first, *(position[reader] for reader in readers[buffer])])
            if buffer in graph.live_at_end or (buffer not in made_by and not readers[buffer]):
                last = len(order)
            if first <= place <= last and (buffer, place) not in dead_weight:
                live.add(buffer)
        yield live


def slow_peak(graph, order):
    start = sum(s for b, s in enumerate(graph.buffer_bytes) if b not in graph.writers())
    peaks = [start]
    for index, live in zip(order, live_sets(graph, order), strict=True):
        used = sum(graph.buffer_bytes[buffer] for buffer in live)
        peaks.append(used + graph.tasks[index].temporary_bytes)
    return max(peaks)


@given(graphs())
def test_a_schedule_is_a_permutation_that_respects_the_dependencies(graph):
    order = schedule(graph)
    assert sorted(order) == list(range(len(graph.tasks)))
    position = {task: place for place, task in enumerate(order)}
    for index, task in enumerate(graph.tasks):
        assert all(position[earlier] < position[index] for earlier in task.after)


@given(graphs())
def test_the_peak_is_what_a_slow_count_finds(graph):
    order = schedule(graph)
    assert peak_bytes(graph, order) == slow_peak(graph, order)


@given(graphs())
def test_the_peak_lies_between_the_neediest_task_and_the_given_order(graph):
    def needed(task):
        buffers = {*task.reads, *task.writes}
        overlap = sum(graph.buffer_bytes[b] for b in task.takes_over if b not in graph.live_at_end)
        used = sum(graph.buffer_bytes[buffer] for buffer in buffers)
        return used - overlap + task.temporary_bytes

    peak = peak_bytes(graph, schedule(graph))
    assert peak >= max(needed(task) for task in graph.tasks)
    assert peak <= peak_bytes(graph, range(len(graph.tasks)))


@given(graphs())
def test_equal_graphs_give_equal_orders(graph):
    again = TaskGraph(
        tasks=graph.tasks, buffer_bytes=graph.buffer_bytes, live_at_end=graph.live_at_end
    )
    assert schedule(graph) == schedule(again)


def test_branches_run_one_after_the_other():
    # Four branches from one start (0), each a large buffer reduced to a small one; then a join.
    tasks = [Task(writes=(0,))]
    sizes = [1]
    for branch in range(4):
        tasks.append(Task(after=(0,), reads=(0,), writes=(1 + branch,)))
        sizes.append(100)
    for branch in range(4):
        tasks.append(Task(after=(1 + branch,), reads=(1 + branch,), writes=(5 + branch,)))
        sizes.append(1)
    tasks.append(Task(after=(5, 6, 7, 8), reads=(5, 6, 7, 8), writes=(9,)))
    graph = TaskGraph(tasks=tasks, buffer_bytes=[*sizes, 1])
    assert peak_bytes(graph, range(len(tasks))) == 401
    assert peak_bytes(graph, schedule(graph)) == 104


def test_an_update_runs_as_soon_as_its_gradient_is_there():
    """Backward chain: every gradient (10) is followed by its update; given order updates last."""
    layers = 20
    tasks, sizes = [], []
    weights = range(layers)
    sizes += [10] * layers
    chain = layers  # the gradient of the activations, size 5
    sizes.append(5)
    tasks.append(Task(writes=(chain,)))
    gradients = []
    for layer in range(layers):
        previous = chain + 2 * layer
        sizes += [10, 5]
        tasks.append(
            Task(
                after=(len(tasks) - 1,),
                reads=(previous, layer),
                writes=(previous + 1, previous + 2),
            )
        )
        gradients.append((len(tasks) - 1, previous + 1))
    for layer, (maker, gradient) in enumerate(gradients):
        tasks.append(Task(after=(maker,), reads=(layer, gradient)))
    graph = TaskGraph(tasks=tasks, buffer_bytes=sizes, live_at_end=frozenset(weights))
    assert peak_bytes(graph, range(len(tasks))) == 200 + 5 + 200 + 5
    assert peak_bytes(graph, schedule(graph)) == 200 + 5 + 10 + 5


def test_what_is_made_of_weights_alone_waits_for_its_reader():
    """Casts of weights (4 each) stand first in the given order; each is needed by one layer."""
    layers = 10
    sizes = [8] * layers + [4] * layers + [1] * (layers + 1)
    tasks = [Task(reads=(layer,), writes=(layers + layer,)) for layer in range(layers)]
    tasks.append(Task(writes=(2 * layers,)))
    for layer in range(layers):
        tasks.append(
            Task(
                after=(layer, layers + layer),
                reads=(layers + layer, 2 * layers + layer),
                writes=(2 * layers + layer + 1,),
            )
        )
    graph = TaskGraph(tasks=tasks, buffer_bytes=sizes, live_at_end=frozenset(range(layers)))
    assert peak_bytes(graph, range(len(tasks))) == 80 + 40 + 2
    assert peak_bytes(graph, schedule(graph)) == 80 + 4 + 2


def test_memory_that_is_taken_over_counts_once():
    tasks = (Task(writes=(0,)), Task(after=(0,), reads=(0,), writes=(1,), takes_over=(0,)))
    graph = TaskGraph(tasks=tasks, buffer_bytes=(7, 7))
    assert peak_bytes(graph, (0, 1)) == 7
    kept = TaskGraph(tasks=tasks, buffer_bytes=(7, 7), live_at_end=frozenset({0}))
    assert peak_bytes(kept, (0, 1)) == 14


@pytest.mark.parametrize("tasks", [0, 1])
def test_tiny_graphs(tasks):
    graph = TaskGraph(tasks=(Task(),) * tasks, buffer_bytes=())
    assert schedule(graph) == tuple(range(tasks))


def test_many_tasks_take_little_time():
    count = 12_000
    tasks, sizes = [], []
    for index in range(count):
        reads = tuple({index - 1, index // 2, index * 7 % (index + 1) - 1} - {-1, index})
        tasks.append(Task(after=tuple(sorted(reads)), reads=reads, writes=(index,)))
        sizes.append(index * 7919 % 1000)
    graph = TaskGraph(tasks=tasks, buffer_bytes=sizes)
    begin = time.process_time()
    schedule(graph)
    assert time.process_time() - begin < 1.0


def test_groups_run_one_after_the_other_as_far_as_they_can():
    # Every pair makes a buffer and frees it; the third group waits for the last.
    def pair(number, group, after=()):
        return [
            Task(writes=(number,), group=group, after=after),
            Task(reads=(number,), group=group, after=(2 * number,)),
        ]

    tasks = [*pair(0, 2), *pair(1, 0), *pair(2, 1, after=(7,)), *pair(3, 3)]
    graph = TaskGraph(tasks=tasks, buffer_bytes=(9, 9, 1, 1))
    assert schedule(graph) == (2, 3, 0, 1, 6, 7, 4, 5)
