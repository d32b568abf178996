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
        kept: Buffers that stay live to the end: the caller owns their memory, or they are
            results.
    """

    tasks: Sequence[Task]
    buffer_bytes: Sequence[int]
    kept: frozenset[int] = frozenset()

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
    given = _given(graph)
    candidates = (given, _from_the_front(graph), _from_the_back(graph))
    return min(candidates, key=lambda order: peak_bytes(graph, order))


def _given(graph: TaskGraph) -> tuple[int, ...]:
    """Returns the given order, by groups."""
    if all(task.group == 0 for task in graph.tasks):
        return tuple(range(len(graph.tasks)))
    followers = graph.followers()
    missing = [len(task.after) for task in graph.tasks]
    ready = [(task.group, i) for i, task in enumerate(graph.tasks) if not missing[i]]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        _, index = heapq.heappop(ready)
        order.append(index)
        for follower in followers[index]:
            missing[follower] -= 1
            if not missing[follower]:
                heapq.heappush(ready, (graph.tasks[follower].group, follower))
    return tuple(order)


def taken_over(task: Task, kept: Set[int], waiting: Sequence[int]) -> int | None:
    """Returns the buffer whose memory a task takes over, or None.

    Args:
        task: The task.
        kept: Buffers whose memory no task may take over.
        waiting: Number of tasks that still read each buffer, this one included.
    """
    free = (buffer for buffer in task.takes_over if waiting[buffer] == 1 and buffer not in kept)
    return next(free, None)


def peak_bytes(graph: TaskGraph, order: Sequence[int]) -> int:
    """Returns the most bytes that are live at a time when the tasks run in `order`."""
    size, kept = graph.buffer_bytes, graph.kept
    waiting = [len(readers) for readers in graph.readers()]
    made_by = graph.writers()
    live = peak = sum(b for buffer, b in enumerate(size) if buffer not in made_by)
    for index in order:
        task = graph.tasks[index]
        made = sum(size[buffer] for buffer in task.writes)
        taken = taken_over(task, kept, waiting)
        if taken is not None:
            made -= size[taken]
            waiting[taken] = 0
        live += made
        peak = max(peak, live + task.temporary_bytes)
        for buffer in task.reads:
            if waiting[buffer]:
                waiting[buffer] -= 1
                if waiting[buffer] == 0 and buffer not in kept:
                    live -= size[buffer]
        live -= sum(size[b] for b in task.writes if not waiting[b] and b not in kept)
    return peak


def _from_the_front(graph: TaskGraph) -> tuple[int, ...]:
    """Returns the order that always runs the ready task that adds the least memory.

    Ties keep the given order.

    Tasks that only read lasting memory (such as the cast of a weight) would seem cheap long before
    another task needs them; they run right before the first task that does.
    """
    size, kept, tasks = graph.buffer_bytes, graph.kept, graph.tasks
    followers, readers = graph.followers(), graph.readers()
    made_by = graph.writers()
    on_demand = _on_demand(graph, made_by, followers)
    waiting = [len(users) for users in readers]
    # The sum of the remaining readers' indices gives the last one without a search.
    remaining = [sum(users) for users in readers]
    growth = [
        sum(size[b] for b in task.writes if b in kept or waiting[b])
        - sum(
            size[b]
            for b in task.reads
            if b not in kept and waiting[b] == 1 and not (b in made_by and on_demand[made_by[b]])
        )
        for task in tasks
    ]
    missing = [sum(not on_demand[earlier] for earlier in task.after) for task in tasks]
    ready = [
        (tasks[i].group, growth[i], i)
        for i in range(len(tasks))
        if not missing[i] and not on_demand[i]
    ]
    heapq.heapify(ready)
    done = [False] * len(tasks)
    order: list[int] = []
    while ready:
        _, cost, index = heapq.heappop(ready)
        if done[index] or cost != growth[index]:
            continue
        for current in _with_demands(index, tasks, done):
            order.append(current)
            for buffer in tasks[current].reads:
                waiting[buffer] -= 1
                remaining[buffer] -= current
                if waiting[buffer] == 1 and buffer not in kept:
                    last = remaining[buffer]
                    growth[last] -= size[buffer]
                    if not missing[last] and not on_demand[last]:
                        heapq.heappush(ready, (tasks[last].group, growth[last], last))
        for follower in followers[index]:
            missing[follower] -= 1
            if not missing[follower] and not on_demand[follower]:
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
            and all(buffer in graph.kept or buffer in made_by for buffer in task.reads)
        )
    return result


def _with_demands(index: int, tasks: Sequence[Task], done: list[bool]) -> list[int]:
    """Returns a ready task after the tasks on demand that it still needs, and marks them done."""
    needed: list[int] = []
    stack = [index]
    while stack:
        current = stack[-1]
        open_tasks = [earlier for earlier in tasks[current].after if not done[earlier]]
        if open_tasks:
            stack.extend(reversed(open_tasks))
            continue
        stack.pop()
        if not done[current]:
            done[current] = True
            needed.append(current)
    return needed


def _from_the_back(graph: TaskGraph) -> tuple[int, ...]:
    """Returns an order that is built from its last task backwards.

    Seen from the end, a task frees the buffers it writes and makes those it reads live; the task
    that adds the least comes next, ties from the back.
    """
    size, kept, tasks = graph.buffer_bytes, graph.kept, graph.tasks
    followers, readers = graph.followers(), graph.readers()
    live = [buffer in kept for buffer in range(len(size))]
    growth = [
        sum(size[b] for b in task.reads if b not in kept)
        - sum(size[b] for b in task.writes if b in kept or readers[b])
        for task in tasks
    ]
    missing = [len(users) for users in followers]
    ready = [(-tasks[i].group, growth[i], -i) for i in range(len(tasks)) if not missing[i]]
    heapq.heapify(ready)
    done = [False] * len(tasks)
    order: list[int] = []
    while ready:
        _, cost, negative = heapq.heappop(ready)
        index = -negative
        if done[index] or cost != growth[index]:
            continue
        done[index] = True
        order.append(index)
        for buffer in tasks[index].reads:
            if live[buffer]:
                continue
            live[buffer] = True
            for reader in readers[buffer]:
                growth[reader] -= size[buffer]
                if not missing[reader] and not done[reader]:
                    heapq.heappush(ready, (-tasks[reader].group, growth[reader], -reader))
        for earlier in tasks[index].after:
            missing[earlier] -= 1
            if not missing[earlier]:
                heapq.heappush(ready, (-tasks[earlier].group, growth[earlier], -earlier))
    return tuple(reversed(order))
