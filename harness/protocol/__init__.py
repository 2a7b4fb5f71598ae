"""What a task is, how tables speak of tasks; and here, how tasks are found by name.

Installed packages offer them through the entry points `harness.tasks`.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points

from harness.core.errors import InputError, one_line, unknown_name
from harness.protocol.task import Task

GROUP = "harness.tasks"
_ORDER = ("sts17", "language-bias", "bucc", "tatoeba", "korsts")


@cache
def _entry_points() -> dict[str, list[EntryPoint]]:
    """The entry points by name; several of one name where packages disagree on what it means."""
    entries: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=GROUP):
        same_name = entries.setdefault(entry.name, [])
        if all(entry.value != other.value for other in same_name):
            same_name.append(entry)
    return entries


def task_names() -> list[str]:
    """The names of all tasks: the harness's own in the order of the paper's tables, then others by name."""
    names = _entry_points().keys()
    return [name for name in _ORDER if name in names] + sorted(names - set(_ORDER))


def get_task(name: str) -> Task:
    """The task of that name.

    Raises:
        InputError: there is none (with the nearest matches), two packages offer it, or it cannot be imported.
    """
    entries = _entry_points()
    if name not in entries:
        raise unknown_name("task", name, entries)
    entry, *others = entries[name]
    if others:
        offers = ", ".join(f"{e.value} of {e.dist.name if e.dist else '?'}" for e in (entry, *others))
        raise InputError(f"task {name!r} is offered more than once ({offers}); uninstall all but one package")
    try:
        task = entry.load()
    except (Exception, SystemExit) as error:  # a third party's package may fail in any way
        raise InputError(f"task {name!r} ({entry.value}) cannot be imported: {one_line(error)}") from error
    if not isinstance(task, Task):
        raise InputError(f"task {name!r}: {entry.value} is no harness.tasks.Task")
    if task.name != name:  # its results would be stored as another task's
        raise InputError(f"task {name!r}: {entry.value} calls itself {task.name!r}; give both one name")
    return task


def all_tasks() -> list[Task]:
    """All tasks, in the order of `task_names`. Raises InputError as `get_task`."""
    return [get_task(name) for name in task_names()]
