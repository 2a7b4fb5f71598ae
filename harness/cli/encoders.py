"""`leaderboard encoders` and `leaderboard cache`: the encoders that are installed, and the vectors that are kept.

`encoders` shows what each encoder needs to run here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import say
from harness.cli.options import CacheDirOption, format_option
from harness.core.errors import HarnessError, InputError
from harness.core.escaping import terminal
from harness.report.render import ENTRY_FORMATS, render, render_long

if TYPE_CHECKING:
    from harness.report.cells import Table


cache = typer.Typer(help="Size of the vector cache, and clearing it.", no_args_is_help=True)

_COMMON = (
    "Options of all: name=NAME (of its stored results), normalize=true (unit vectors)",
    "and truncate_dim=N (the first N components), quantize=int8|binary",
    "Where there is prompt=TEXT, for retrieval: prompt_query=, prompt_document=",
)


@dataclass(frozen=True)
class EncoderRow:
    """One alias or kind as it is printed; `encoder` is how to write it in a spec string, `state` is for this machine.

    The other attributes are those of `harness.encoders.info.EncoderInfo`; a broken one has none of them.
    """

    encoder: str
    state: str
    is_kind: bool = False
    dim: int | None = None
    licence: str | None = None
    backend: str | None = None
    description: str | None = None
    languages: str | None = None


def encoders(
    format: Annotated[str, format_option("an entry an encoder")] = "table",
    fetch: Annotated[
        list[str] | None,
        typer.Option(metavar="ALIAS", show_default=False, help="Download what this encoder needs first. Repeatable."),
    ] = None,
) -> None:
    """List encoders, and what they need. Of each: dimension, licence of the weights, backend, and whether it is ready
    on this machine.

    Example: leaderboard encoders --fetch minilm
    """
    all_fetched = _fetch(fetch or [])
    rows = _rows()
    is_long = format in ENTRY_FORMATS
    typer.echo(render_long([asdict(row) for row in rows], format) if is_long else render(tables(rows), format))
    if not all_fetched:
        raise typer.Exit(3)


def _fetch(aliases: Sequence[str]) -> bool:
    """Fetch what the aliases need; whether all of it is here now. Nothing is fetched if one of them is no alias."""
    from harness.core.errors import one_line
    from harness.encoders.containment import contained
    from harness.encoders.registry import encoder_info

    infos = {alias: encoder_info(alias) for alias in aliases}
    for alias, info in infos.items():
        if not info.is_alias:
            raise InputError(f"{alias!r} is a kind of encoder ({alias}:{info.location_form}); only an alias is fetched")
        info.check_installed(f"encoder {alias!r}", alias)
    failed = 0
    for alias, info in infos.items():
        if recipe := info.missing_recipe:
            say(f"{alias}: nothing to fetch, it must be made: {recipe}")
            failed += 1
        elif info.fetch is None:
            say(f"{alias}: nothing needs fetching")
        else:
            say(f"{alias}: fetching")
            try:
                with contained():
                    info.fetch()
            except (Exception, SystemExit) as error:  # a network, a third party's code; the other aliases go on
                say(f"{alias}: not fetched: {one_line(error)}")
                failed += 1
            else:
                say(f"{alias}: fetched")
    return not failed


def _rows() -> list[EncoderRow]:
    """Aliases first, then kinds; each sorted by name. What is both has a row of either."""
    from harness.core.errors import one_line
    from harness.encoders.registry import encoder_info, encoder_names

    rows = []
    for name in encoder_names():
        try:
            info = encoder_info(name)
            needs = info.needs(name)
            row = EncoderRow(
                encoder=name,
                state=f"needs {needs}" if needs else "ready",
                dim=info.dim,
                licence=info.licence,
                backend=info.backend,
                description=info.description,
                languages=" ".join(info.languages) if info.languages else None,
            )
            if info.is_alias:
                rows.append(row)
            if info.is_kind:
                state = "ready" if info.is_installed else f"needs {info.install_command}"
                rows.append(replace(row, encoder=f"{name}:{info.location_form}", state=state, is_kind=True))
        except HarnessError as error:
            reason = one_line(error.__cause__ or error)
            rows.append(EncoderRow(name, f"broken: {' '.join(reason.split())}"))
    return sorted(rows, key=lambda row: row.is_kind)


def tables(rows: Sequence[EncoderRow]) -> list[Table]:
    """Aliases and kinds, a table each, as far as there are some."""
    from harness.report.cells import Cell, Column, Note, Row, Table

    columns = (
        Column("encoder", is_number=False),
        Column("dim"),
        *(Column(head, is_number=False) for head in ("licence", "backend")),
        *(Column(head, is_number=False, is_prose=True) for head in ("state", "description")),
    )
    parts = []
    for is_kind, title in (
        (False, "Aliases"),
        (True, "Kinds, with their location; all take ?option=value&option=value"),
    ):
        lines = []
        for row in (row for row in rows if row.is_kind is is_kind):
            facts = (str(row.dim) if row.dim else None, row.licence, row.backend, row.state, row.description or "")
            lines.append(Row((Cell(row.encoder, "code"), *map(Cell, facts))))
        if lines:
            parts.append(Table(title, columns, tuple(lines), tuple(map(Note, _COMMON)) if is_kind else ()))
    return parts


@cache.command()
def size(cache_dir: CacheDirOption = None) -> None:
    """Print what the cached vectors take. Bytes of each encoder (name and fingerprint), and the total.

    Example: leaderboard cache size
    """
    from harness.encoders.cache import VectorCache

    sizes = VectorCache(cache_dir).size()
    for encoder, number in sorted(sizes.items()):
        typer.echo(terminal(f"{number:>15,}  {encoder}"))
    typer.echo(f"{sum(sizes.values()):>15,}  bytes in {len(sizes)} encoders")


@cache.command()
def clear(cache_dir: CacheDirOption = None) -> None:
    """Delete all vectors (models stay)."""
    from harness.encoders.cache import VectorCache

    typer.echo(f"{VectorCache(cache_dir).clear():,} bytes freed")
