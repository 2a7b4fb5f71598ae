"""What a task is, how tables speak of tasks; and here, how tasks are found by name.

Installed packages offer them through the entry points `harness.tasks`.
"""

from __future__ import annotations

from harness.core.errors import InputError
from harness.core.plugins import load_offer, offers
from harness.protocol.task import Task

GROUP = "harness.tasks"
_ORDER = ("sts17", "language-bias", "bucc", "tatoeba", "korsts", "pairs", "scored", "retrieval")


def task_names() -> list[str]:
    """The names of all tasks: the harness's own in the order of the paper's tables, then others by name."""
    names = offers(GROUP).keys()
    return [name for name in _ORDER if name in names] + sorted(names - set(_ORDER))


def get_task(name: str) -> Task:
    """The task of that name.

    Raises:
        InputError: there is none (with the nearest matches), two packages offer it, or it cannot be imported.
    """
    task, place = load_offer(GROUP, name, "task")
    if not isinstance(task, Task):
        raise InputError(f"task {name!r}: {place} is no harness.tasks.Task")
    if task.name != name:  # its results would be stored as another task's
        raise InputError(f"task {name!r}: {place} calls itself {task.name!r}; give both one name")
    return task


def all_tasks() -> list[Task]:
    """All tasks, in the order of `task_names`. Raises InputError as `get_task`."""
    return [get_task(name) for name in task_names()]
