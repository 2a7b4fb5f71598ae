"""What mined pairs are written as: tables of tabs, two aligned files, TMX, JSON lines, Parquet.

Best pairs first, sentences as they were read: they are data, escaped as a format demands (`xml_text`, `json_text`) and
not against spreadsheets. No sentence holds a tab or a line end (see `harness.mining.texts`).
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, cast

from harness.core.compressed import packing_of, plain_name
from harness.core.errors import InputError, MissingExtraError, unknown_name
from harness.core.escaping import json_text, xml_text
from harness.core.files import replacing, writing
from harness.mining.search import Floats, Ints
from harness.mining.texts import Sentences

_AT_ONCE = 1 << 14  # pairs that are written
UNKNOWN = "und"
"""The code of a language that is not known, by ISO 639-2."""


@dataclass(frozen=True)
class Bitext:
    """Mined pairs as they are written.

    Attributes:
        rows: (p, 2), of the sentences of `texts`.
        scores: (p,), descending.
        texts: both sides.
        langs: of both sides; None where it is not known.
    """

    rows: Ints
    scores: Floats
    texts: Sequence[Sentences]
    langs: Sequence[str | None]

    def __len__(self) -> int:
        return len(self.scores)

    def blocks(self) -> Iterator[list[tuple[float, int, int]]]:
        """Scores and rows of some pairs at a time."""
        for start in range(0, len(self), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            pairs = zip(self.scores[part].tolist(), self.rows[part].tolist(), strict=True)
            yield [(score, i, j) for score, (i, j) in pairs]


def to_tsv(bitext: Bitext) -> Iterator[bytes]:
    """Lines `score TAB source TAB target`, as LASER's `mine_bitexts.py` writes them; scores with six digits."""
    source, target = (text.sentences for text in bitext.texts)
    for block in bitext.blocks():
        yield "".join(f"{score:.6f}\t{source[i]}\t{target[j]}\n" for score, i, j in block).encode()


def to_jsonl(bitext: Bitext) -> Iterator[bytes]:
    """A JSON object a line: `score`, `src`, `trg`, `src_line`, `trg_line` (from 1), `src_file`, `trg_file`.

    Of documents also `document`, the id.
    """
    for block in bitext.blocks():
        yield "".join(f"{json_text(_record(bitext, *pair))}\n" for pair in block).encode()


def _record(bitext: Bitext, score: float, i: int, j: int) -> dict[str, Any]:
    record: dict[str, Any] = {"score": round(score, 6)}
    record |= {name: text.sentences[row] for name, text, row in _sides(bitext, i, j)}
    for name, text, row in _sides(bitext, i, j):
        file, record[f"{name}_line"] = text.place(row)
        record[f"{name}_file"] = file
    if (document := bitext.texts[0].document) is not None:
        record["document"] = document(i)
    return record


def _sides(bitext: Bitext, i: int, j: int) -> Iterator[tuple[str, Sentences, int]]:
    return zip(("src", "trg"), bitext.texts, (i, j), strict=True)


def to_tmx(bitext: Bitext) -> Iterator[bytes]:
    """TMX 1.4: a translation unit a pair, with its score as a property. What XML does not have becomes U+FFFD."""
    first, second = (xml_text(lang or UNKNOWN) for lang in bitext.langs)
    release = xml_text(version("multilingual-embedding-harness"))
    yield (
        '<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4">\n'
        f'<header creationtool="multilingual-embedding-harness" creationtoolversion="{release}" segtype="sentence" '
        f'o-tmf="text" adminlang="en" srclang="{first}" datatype="plaintext"/>\n<body>\n'
    ).encode()
    source, target = (text.sentences for text in bitext.texts)
    for block in bitext.blocks():
        yield "".join(
            f'<tu><prop type="score">{score:.6f}</prop>'
            f'<tuv xml:lang="{first}"><seg>{xml_text(source[i])}</seg></tuv>'
            f'<tuv xml:lang="{second}"><seg>{xml_text(target[j])}</seg></tuv></tu>\n'
            for score, i, j in block
        ).encode()
    yield b"</body>\n</tmx>\n"


def write_parquet(bitext: Bitext, stream: IO[bytes]) -> None:
    """Write columns `score`, `src`, `trg`, `src_line`, `trg_line`, `src_file`, `trg_file`; `document` as in JSON."""
    import pyarrow
    import pyarrow.parquet

    words, number = pyarrow.string(), pyarrow.int64()
    columns = {"score": pyarrow.float64(), "src": words, "trg": words, "src_line": number, "trg_line": number}
    columns |= {"src_file": words, "trg_file": words}
    if bitext.texts[0].document is not None:
        columns["document"] = words
    schema = pyarrow.schema(list(columns.items()))
    with pyarrow.parquet.ParquetWriter(stream, schema, compression="zstd") as writer:
        for block in bitext.blocks():
            records = [_record(bitext, *pair) | {"score": pair[0]} for pair in block]  # not rounded
            writer.write_table(pyarrow.Table.from_pylist(records, schema))


_STREAMS: dict[str, Callable[[Bitext], Iterator[bytes]]] = {"tsv": to_tsv, "jsonl": to_jsonl, "tmx": to_tmx}
FORMATS = (*_STREAMS, "moses", "parquet")
"""`moses` is two aligned files, `OUT.de` and `OUT.en`, without scores."""


def chosen_format(name: str | None, out: Path | None, langs: Sequence[str | None]) -> tuple[str, tuple[Path, ...]]:
    """The format by its name, else by the ending of the file to write (`tsv` for all others), and the files it has.

    out: None for standard output, which takes streams of text alone.

    Raises:
        InputError: an unknown format, one that is not for standard output, a folder, or a packing but `.gz`.
        MissingExtraError: Parquet without pyarrow.
    """
    if name is None:
        ending = plain_name(out).rpartition(".")[2].lower() if out is not None else ""
        name = ending if ending in FORMATS and ending != "moses" else "tsv"
    if name not in FORMATS:
        raise unknown_name("format", name, FORMATS)
    if out is None:
        if name not in _STREAMS:
            raise InputError(f"the format {name} is not for standard output; name a file with --out")
        return name, ()
    if out.is_dir():
        raise InputError(f"--out {out} is a folder and no ordinary file; name one")
    packing = packing_of(out)
    if packing and name == "parquet":
        raise InputError(f"Parquet is compressed in itself; leave {packing} out of the name of --out")
    if packing not in ("", ".gz"):
        raise InputError(f"--out {out}: only .gz is written; name it so, or leave {packing} out")
    if name == "parquet":
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError:
            raise MissingExtraError("--format parquet", "parquet") from None
    if name != "moses":
        return name, (out,)
    first, second = langs
    endings = (first or "src", second or "trg") if first != second else ("src", "trg")
    return name, tuple(out.with_name(f"{out.name.removesuffix(packing)}.{ending}{packing}") for ending in endings)


def stream_of(name: str, bitext: Bitext) -> Iterator[bytes]:
    """What a format that is one stream of text has, in blocks."""
    return _STREAMS[name](bitext)


def write_bitext(name: str, files: Sequence[Path], bitext: Bitext) -> None:
    """Write the files of a format, all or none, compressed where a name ends in `.gz`.

    Raises:
        InputError: a file cannot be written.
    """
    with ExitStack() as stack:
        streams = []
        for path in files:
            stack.enter_context(writing(path))
            streams.append(_packed(stack, path))
        if name == "parquet":
            write_parquet(bitext, streams[0])
        elif name == "moses":
            for side, stream in enumerate(streams):
                stream.writelines(_lines(bitext, side))
        else:
            streams[0].writelines(stream_of(name, bitext))


def _lines(bitext: Bitext, side: int) -> Iterator[bytes]:
    sentences = bitext.texts[side].sentences
    for block in bitext.blocks():
        yield "".join(f"{sentences[rows[side]]}\n" for _, *rows in block).encode()


def _packed(stack: ExitStack, path: Path) -> IO[bytes]:
    stream = stack.enter_context(replacing(path))
    if packing_of(path) != ".gz":
        return stream
    # Without the time of day and the temporary name in the archive: equal pairs, equal files.
    packed = gzip.GzipFile(filename="", fileobj=stream, mode="wb", mtime=0)
    return cast(IO[bytes], stack.enter_context(packed))
