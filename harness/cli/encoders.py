"""`leaderboard encoders`: every encoder that an installed package offers, and what it needs to run here."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness import escaping
from harness.errors import HarnessError, InputError

if TYPE_CHECKING:
    from harness.registry import EncoderInfo


_COMMON = "Options of all: name=NAME (under which results are stored), normalize=true (vectors scaled to length 1)."


class Format(str, Enum):
    """How to print."""

    table = "table"
    json = "json"
    md = "md"


@dataclass(frozen=True)
class Row:
    """One alias or kind as it is printed; `encoder` is how to write it in a spec string, `state` is for this machine.

    The other attributes are those of `harness.registry.EncoderInfo`; of one that is broken, nothing else is known.
    """

    encoder: str
    state: str
    is_kind: bool = False
    dim: int | None = None
    licence: str | None = None
    backend: str | None = None
    description: str | None = None


def encoders(
    format: Annotated[Format, typer.Option(help="How to print.")] = Format.table,
    fetch: Annotated[
        list[str] | None,
        typer.Option(metavar="ALIAS", show_default=False, help="Download what this encoder needs first. Repeatable."),
    ] = None,
) -> None:
    """Show every encoder: dimension, licence of the weights, backend, and whether it is ready on this machine."""
    all_fetched = _fetch(fetch or [])
    rows = _rows()
    if format is Format.json:
        typer.echo(escaping.json_text([asdict(row) for row in rows], indent=2, sort_keys=True))
    elif format is Format.md:
        typer.echo(escaping.without_commands(_markdown(rows)))
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        typer.echo(escaping.terminal(_table([_visible(row) for row in rows], width)))
    if not all_fetched:
        raise typer.Exit(3)


def _fetch(aliases: Sequence[str]) -> bool:
    """Fetch what the aliases need; whether all of it is here now. Nothing is fetched if one of them is no alias."""
    from harness.containment import contained
    from harness.registry import encoder_info, one_line

    chosen = {alias: encoder_info(alias) for alias in aliases}
    for alias, info in chosen.items():
        if not info.is_alias:
            raise InputError(f"{alias!r} is a kind of encoder ({alias}:{info.location_form}); only an alias is fetched")
        info.check_installed(f"encoder {alias!r}")
    failed = 0
    for alias, info in chosen.items():
        if recipe := info.missing_recipe:
            typer.echo(escaping.terminal(f"{alias}: nothing to fetch, it must be made: {recipe}"), err=True)
            failed += 1
            continue
        if info.fetch is None:
            typer.echo(f"{alias}: nothing needs fetching", err=True)
            continue
        typer.echo(f"{alias}: fetching", err=True)
        try:
            with contained():
                info.fetch()
        except (Exception, SystemExit) as error:  # a network, a third party's code; the other aliases go on
            typer.echo(escaping.terminal(f"{alias}: not fetched: {one_line(error)}"), err=True)
            failed += 1
        else:
            typer.echo(f"{alias}: fetched", err=True)
    return not failed


def _rows() -> list[Row]:
    """Aliases first, then kinds; each sorted by name."""
    from harness.registry import encoder_info, encoder_names, one_line

    rows = []
    for name in encoder_names():
        try:
            rows += _rows_of(name, encoder_info(name))
        except HarnessError as error:
            reason = one_line(error.__cause__ or error)
            rows.append(Row(name, f"broken: {' '.join(reason.split())}"))
    return sorted(rows, key=lambda row: row.is_kind)


def _rows_of(name: str, info: EncoderInfo) -> list[Row]:
    """One row; two for a kind that is an alias too."""
    needs = info.needs(name)
    row = Row(
        encoder=name,
        state=f"needs {needs}" if needs else "ready",
        dim=info.dim,
        licence=info.licence,
        backend=info.backend,
        description=info.description,
    )
    rows = [row] if info.is_alias else []
    if info.is_kind:
        state = "ready" if info.is_installed else f"needs {info.install_command}"
        rows.append(replace(row, encoder=f"{name}:{info.location_form}", state=state, is_kind=True))
    return rows


def _table(rows: Sequence[Row], width: int | None) -> str:
    """Two lines an alias (facts; description), then the kinds, then the options that all have.

    Lines are broken at `width`; None breaks none.
    """
    blocks = []
    for heading, part in _parts(rows):
        cells = [(row.encoder,) if row.is_kind else _facts(row) for row in part]
        sizes = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [heading]
        for row, texts in zip(part, cells, strict=True):
            facts = "  ".join(f"{text:<{size}}" for text, size in zip(texts, sizes, strict=True))
            lines.append(f"{facts}  {row.state}")
            if width and len(lines[-1]) > width:
                lines[-1:] = [facts.rstrip(), *_indented(row.state, width)]
            lines += _indented(row.description or "", width)
        blocks.append("\n".join(lines))
    blocks.append(textwrap.fill(_COMMON, width) if width else _COMMON)
    return "\n\n".join(blocks)


def _visible(row: Row) -> Row:
    """What another package's registration says, without lines of its own."""
    texts = {key: value for key, value in asdict(row).items() if isinstance(value, str)}
    changed: dict[str, Any] = {key: escaping.visible(text) for key, text in texts.items()}
    return replace(row, **changed)


def _facts(row: Row) -> tuple[str, ...]:
    return row.encoder, f"{row.dim or '-':>5}", row.licence or "-", row.backend or "-"


def _parts(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    parts = [
        ("Aliases:", [row for row in rows if not row.is_kind]),
        ("Kinds, with their location; all take ?option=value&option=value:", [row for row in rows if row.is_kind]),
    ]
    return [(heading, part) for heading, part in parts if part]


def _indented(text: str, width: int | None) -> list[str]:
    if width is None:
        return [f"    {text}"] if text else []
    return textwrap.wrap(
        text, width, initial_indent="    ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )


def _markdown(rows: Sequence[Row]) -> str:
    lines = ["| encoder | dim | licence | backend | state | description |", "|---|---:|---|---|---|---|"]
    for row in rows:
        facts = (row.dim, row.licence, row.backend, row.state, row.description)
        texts = ("-" if fact is None else escaping.markdown(str(fact)) for fact in facts)
        lines.append(f"| {' | '.join([escaping.code(row.encoder, in_table=True), *texts])} |")
    return "\n".join(lines)
