"""The tasks: what is measured, and how. Installed packages add theirs through the entry points `harness.tasks`."""

from __future__ import annotations

from importlib.metadata import entry_points

from harness.errors import InputError, unknown_name
from harness.tasks.task import Encode, Rows, Task

__all__ = ["Encode", "Rows", "Task", "get_task", "task_names"]

GROUP = "harness.tasks"


def task_names() -> list[str]:
    """The names of all tasks, the harness's own first, in the order of the paper's tables."""
    own = ["sts17", "language-bias", "bucc", "tatoeba"]
    found = {entry.name for entry in entry_points(group=GROUP)}
    return [name for name in own if name in found] + sorted(found.difference(own))


def get_task(name: str) -> Task:
    """The task of that name. Raises InputError, with the nearest matches, if there is none."""
    entries = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in entries:
        raise unknown_name("task", name, entries)
    task = entries[name].load()
    if not isinstance(task, Task):
        raise InputError(f"task {name!r}: {entries[name].value} is no harness.tasks.Task")
    return task
