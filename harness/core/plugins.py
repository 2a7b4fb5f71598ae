"""What installed packages offer through entry points: encoders, tasks."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points

from harness.core.errors import InputError, one_line, unknown_name


@cache
def offers(group: str) -> dict[str, list[EntryPoint]]:
    """The entry points of a group by name; several of one name where packages disagree on what it means."""
    entries: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=group):
        same_name = entries.setdefault(entry.name, [])
        if all(entry.value != other.value for other in same_name):
            same_name.append(entry)
    return entries


def load_offer(group: str, name: str, what: str) -> tuple[object, str]:
    """What a name of a group stands for, and where it is (`package.module:object`).

    what: the kind of thing, for the message: "encoder", "task".

    Raises:
        InputError: there is none (with the nearest matches), two packages offer it, or it cannot be imported.
    """
    entries = offers(group)
    if name not in entries:
        raise unknown_name(what, name, entries)
    entry, *others = entries[name]
    if others:
        listed = ", ".join(f"{e.value} of {e.dist.name if e.dist else '?'}" for e in (entry, *others))
        raise InputError(f"{what} {name!r} is offered more than once ({listed}); uninstall all but one package")
    try:
        return entry.load(), entry.value
    except (Exception, SystemExit) as error:  # a third party's package may fail in any way
        raise InputError(f"{what} {name!r} ({entry.value}) cannot be imported: {one_line(error)}") from error
