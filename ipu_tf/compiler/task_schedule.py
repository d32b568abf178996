"""Finds an order of tasks in which little memory is live at a time.

Finding the best order is NP-hard, so the scheduler compares the peaks of a few orders that it finds
in near-linear time: the given order, one built greedily from the front, one greedily from the back.
Bytes are those of all tiles together; the memory of single tiles is checked afterwards.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """An instruction as the scheduler sees it. Buffers are numbered from 0.

    Attributes:
        after: Indices of the tasks that must run before it.
        reads: Buffers that it reads, each once.
        writes: Buffers that it makes; no other task makes them.
        takes_over: Buffers among `reads` whose memory `writes[0]` may take over; it takes over the
            first one that no task reads later.
        temporary_bytes: Memory in use only while it runs.
        group: Tasks of lower groups run first, as far as `after` allows.
    """

    after: tuple[int, ...] = ()
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    takes_over: tuple[int, ...] = ()
    temporary_bytes: int = 0
    group: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskGraph:
    """Tasks and their buffers.

    Attributes:
        tasks: In an order that respects `Task.after`.
        buffer_bytes: Bytes of every buffer. A buffer that no task writes is live from the start.
        live_at_end: Buffers that stay live to the end: the caller owns their memory, or they are
            results.
    """

    tasks: Sequence[Task]
    buffer_bytes: Sequence[int]
    live_at_end: frozenset[int] = frozenset()

    def followers(self) -> list[list[int]]:
        """Returns, task by task, the tasks that must run after it."""
        followers: list[list[int]] = [[] for _ in self.tasks]
        for index, task in enumerate(self.tasks):
            for earlier in task.after:
                followers[earlier].append(index)
        return followers

    def writers(self) -> dict[int, int]:
        """Returns the task that makes a buffer, for every buffer that a task makes."""
        return {buffer: index for index, task in enumerate(self.tasks) for buffer in task.writes}

    def readers(self) -> list[list[int]]:
        """Returns, buffer by buffer, the tasks that read it."""
        readers: list[list[int]] = [[] for _ in self.buffer_bytes]
        for index, task in enumerate(self.tasks):
            for buffer in task.reads:
                readers[buffer].append(index)
        return readers


def schedule(graph: TaskGraph) -> tuple[int, ...]:
    """Returns an order of the tasks whose peak is never above that of the given order.

    Tasks are in the order of their groups. Equal graphs give equal orders.
    """
    own_order = _program_order(graph)
    candidates = (own_order, _from_the_front(graph), _from_the_back(graph))
    return min(candidates, key=lambda order: peak_bytes(graph, order))


def _program_order(graph: TaskGraph) -> tuple[int, ...]:
    """Returns the given order, by groups."""
    if all(task.group == 0 for task in graph.tasks):
        return tuple(range(len(graph.tasks)))
    followers = graph.followers()
    open_counts = [len(task.after) for task in graph.tasks]
    ready = [(task.group, i) for i, task in enumerate(graph.tasks) if not open_counts[i]]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        _, index = heapq.heappop(ready)
        order.append(index)
        for follower in followers[index]:
            open_counts[follower] -= 1
            if not open_counts[follower]:
                heapq.heappush(ready, (graph.tasks[follower].group, follower))
    return tuple(order)


def taken_over(task: Task, kept_buffers: Set[int], reader_counts: Sequence[int]) -> int | None:
    """Returns the buffer whose memory a task takes over, or None.

    Args:
        task: The task.
        kept_buffers: Buffers whose memory no task may take over.
        reader_counts: Number of tasks that still read each buffer, this one included.
    """
    free = (
        buffer
        for buffer in task.takes_over
        if reader_counts[buffer] == 1 and buffer not in kept_buffers
    )
    return next(free, None)


def peak_bytes(graph: TaskGraph, order: Sequence[int]) -> int:
    """Returns the most bytes that are live at a time when the tasks run in `order`."""
    size, kept_buffers = graph.buffer_bytes, graph.live_at_end
    reader_counts = [len(readers) for readers in graph.readers()]
    made_by = graph.writers()
    live = peak = sum(b for buffer, b in enumerate(size) if buffer not in made_by)
    for index in order:
        task = graph.tasks[index]
        new_bytes = sum(size[buffer] for buffer in task.writes)
        donor = taken_over(task, kept_buffers, reader_counts)
        if donor is not None:
            new_bytes -= size[donor]
            reader_counts[donor] = 0
        live += new_bytes
        peak = max(peak, live + task.temporary_bytes)
        for buffer in task.reads:
            if reader_counts[buffer]:
                reader_counts[buffer] -= 1
                if reader_counts[buffer] == 0 and buffer not in kept_buffers:
                    live -= size[buffer]
        live -= sum(size[b] for b in task.writes if not reader_counts[b] and b not in kept_buffers)
    return peak


def _from_the_front(graph: TaskGraph) -> tuple[int, ...]:
    """Returns the order that always runs the ready task that adds the least memory.

    Ties keep the given order.

    Tasks that only read lasting memory (such as the cast of a weight) would seem cheap long before
    another task needs them; they run right before the first task that does.
    """
    size, kept_buffers, tasks = graph.buffer_bytes, graph.live_at_end, graph.tasks
    followers, readers = graph.followers(), graph.readers()
    made_by = graph.writers()
    on_demand = _on_demand(graph, made_by, followers)
    reader_counts = [len(users) for users in readers]
    # The sum of the remaining readers' indices gives the last one without a search.
    reader_sums = [sum(users) for users in readers]
    growth = [
        sum(size[b] for b in task.writes if b in kept_buffers or reader_counts[b])
        - sum(
            size[b]
            for b in task.reads
            if b not in kept_buffers
            and reader_counts[b] == 1
            and not (b in made_by and on_demand[made_by[b]])
        )
        for task in tasks
    ]
    open_counts = [sum(not on_demand[earlier] for earlier in task.after) for task in tasks]
    ready = [
        (tasks[i].group, growth[i], i)
        for i in range(len(tasks))
        if not open_counts[i] and not on_demand[i]
    ]
    heapq.heapify(ready)
    is_done = [False] * len(tasks)
    order: list[int] = []
    while ready:
        _, cost, index = heapq.heappop(ready)
        if is_done[index] or cost != growth[index]:
            continue
        for current in _with_demands(index, tasks, is_done):
            order.append(current)
            for buffer in tasks[current].reads:
                reader_counts[buffer] -= 1
                reader_sums[buffer] -= current
                if reader_counts[buffer] == 1 and buffer not in kept_buffers:
                    last = reader_sums[buffer]
                    growth[last] -= size[buffer]
                    if not open_counts[last] and not on_demand[last]:
                        heapq.heappush(ready, (tasks[last].group, growth[last], last))
        for follower in followers[index]:
            open_counts[follower] -= 1
            if not open_counts[follower] and not on_demand[follower]:
                heapq.heappush(ready, (tasks[follower].group, growth[follower], follower))
    return tuple(order)


def _on_demand(
    graph: TaskGraph, made_by: Mapping[int, int], followers: Sequence[Sequence[int]]
) -> list[bool]:
    """Returns which tasks have followers and read only lasting memory, or other such tasks."""
    result = [False] * len(graph.tasks)
    for index, task in enumerate(graph.tasks):
        result[index] = (
            bool(followers[index])
            and all(result[earlier] for earlier in task.after)
            and all(buffer in graph.live_at_end or buffer in made_by for buffer in task.reads)
        )
    return result


def _with_demands(index: int, tasks: Sequence[Task], is_done: list[bool]) -> list[int]:
    """Returns a ready task after the tasks on demand that it still needs, and marks them done."""
    demands: list[int] = []
    stack = [index]
    while stack:
        current = stack[-1]
        open_tasks = [earlier for earlier in tasks[current].after if not is_done[earlier]]
        if open_tasks:
            stack.extend(reversed(open_tasks))
            continue
        stack.pop()
        if not is_done[current]:
            is_done[current] = True
            demands.append(current)
    return demands


def _from_the_back(graph: TaskGraph) -> tuple[int, ...]:
    """Returns an order that is built from its last task backwards.

    Seen from the end, a task frees the buffers it writes and makes those it reads live; the task
    that adds the least comes next, ties from the back.
    """
    size, kept_buffers, tasks = graph.buffer_bytes, graph.live_at_end, graph.tasks
    followers, readers = graph.followers(), graph.readers()
    live = [buffer in kept_buffers for buffer in range(len(size))]
    growth = [
        sum(size[b] for b in task.reads if b not in kept_buffers)
        - sum(size[b] for b in task.writes if b in kept_buffers or readers[b])
        for task in tasks
    ]
    open_counts = [len(users) for users in followers]
    ready = [(-tasks[i].group, growth[i], -i) for i in range(len(tasks)) if not open_counts[i]]
    heapq.heapify(ready)
    is_done = [False] * len(tasks)
    order: list[int] = []
    while ready:
        _, cost, negative = heapq.heappop(ready)
        index = -negative
        if is_done[index] or cost != growth[index]:
            continue
        is_done[index] = True
        order.append(index)
        for buffer in tasks[index].reads:
            if live[buffer]:
                continue
            live[buffer] = True
            for reader in readers[buffer]:
                growth[reader] -= size[buffer]
                if not open_counts[reader] and not is_done[reader]:
                    heapq.heappush(ready, (-tasks[reader].group, growth[reader], -reader))
        for earlier in tasks[index].after:
            open_counts[earlier] -= 1
            if not open_counts[earlier]:
                heapq.heappush(ready, (-tasks[earlier].group, growth[earlier], -earlier))
    return tuple(reversed(order))
