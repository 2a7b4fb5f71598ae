"""The tasks: what is measured, and how. Installed packages add theirs through the entry points `harness.tasks`."""

from __future__ import annotations

from importlib.metadata import entry_points

from harness.errors import InputError, unknown_name
from harness.tasks.task import Encode, Rows, Task

__all__ = ["Encode", "Rows", "Task", "get_task", "task_names"]

GROUP = "harness.tasks"


def task_names() -> list[str]:
    """The names of all tasks, the harness's own first, in the order of the paper's tables."""
    own = ["sts17", "language-bias", "bucc", "tatoeba", "korsts"]
    found = {entry.name for entry in entry_points(group=GROUP)}
    return [name for name in own if name in found] + sorted(found.difference(own))


def get_task(name: str) -> Task:
    """The task of that name. Raises InputError, with the nearest matches, if there is none."""
    entries = {entry.name: entry for entry in entry_points(group=GROUP)}
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
