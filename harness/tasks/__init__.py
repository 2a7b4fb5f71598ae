"""The tasks, one file each. Installed packages add theirs through the entry points `harness.tasks`."""

from harness.protocol import all_tasks, get_task, task_names
from harness.protocol.task import Display, Encode, Metric, OverviewColumn, Page, Picture, Rows, Task

__all__ = [
    "Display",
    "Encode",
    "Metric",
    "OverviewColumn",
    "Page",
    "Picture",
    "Rows",
    "Task",
    "all_tasks",
    "get_task",
    "task_names",
]
