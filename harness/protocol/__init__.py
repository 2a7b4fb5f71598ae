"""What a task is, how tables speak of tasks; and here, how tasks are found by name.

Installed packages offer them through the entry points `harness.tasks`.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points

from harness.core.errors import InputError, unknown_name
from harness.protocol.task import Task

GROUP = "harness.tasks"
_ORDER = ("sts17", "language-bias", "bucc", "tatoeba", "korsts")


@cache
def _entry_points() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def task_names() -> list[str]:
    """The names of all tasks: the harness's own in the order of the paper's tables, then others by name."""
    names = _entry_points().keys()
    return [name for name in _ORDER if name in names] + sorted(names - set(_ORDER))


def get_task(name: str) -> Task:
    """The task of that name. Raises InputError, with the nearest matches, if there is none."""
    entries = _entry_points()
    if name not in entries:
        raise unknown_name("task", name, entries)
    entry = entries[name]
    try:
        task = entry.load()
    except Exception as error:  # a third party's package may fail in any way
        raise InputError(f"task {name!r} ({entry.value}) cannot be imported: {' '.join(str(error).split())}") from error
    if not isinstance(task, Task):
        raise InputError(f"task {name!r}: {entry.value} is no harness.tasks.Task")
    if task.name != name:  # its results would be stored as another task's
        raise InputError(f"task {name!r}: {entry.value} calls itself {task.name!r}; give both one name")
    return task


def all_tasks() -> list[Task]:
    """All tasks, in the order of `task_names`. Raises InputError as `get_task`."""
    return [get_task(name) for name in task_names()]
