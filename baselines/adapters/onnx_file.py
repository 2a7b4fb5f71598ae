"""What must be known of an ONNX file before a library opens it: the files that it refers to, and its operations.

onnxruntime reads weights that are kept beside a model from wherever the model says, and older versions do not mind if
that is outside the folder. The file is read as protobuf's wire format (https://protobuf.dev/programming-guides/encoding/)
by the field numbers of onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto); weights are passed over.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import InputError
from harness.core.files import leads_out, refuse_special

# By kind of message, the fields that lead to tensors and operations, and the kind of message that they hold.
_PARTS: dict[str, dict[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse tensor"},
    "node": {4: "operation", 5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse tensor", 23: "sparse tensor"},
    "sparse tensor": {1: "tensor", 2: "tensor"},
    "tensor": {13: "external data"},
}
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 10


@dataclass(frozen=True)
class OnnxFile:
    """What is read of an ONNX file.

    Attributes:
        external: the files with its weights, as their names in its own folder.
        operations: the names of all operations.
    """

    external: frozenset[str]
    operations: frozenset[str]


def read_onnx(path: Path) -> OnnxFile:
    """Read what an ONNX file refers to, without its weights.

    Raises:
        InputError: it cannot be read, is damaged, or has weights outside its folder or in a file that is not there.
    """
    refuse_special(path)
    external: set[str] = set()
    operations: set[str] = set()
    try:
        with path.open("rb") as stream:
            content = memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
        for kind, part in _found(content):
            if kind == "operation":
                operations.add(str(part, "utf-8"))
            elif (location := _location(part)) is not None:
                external.add(location)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None
    except ValueError as error:  # also of an empty file, and of text that is not UTF-8
        raise InputError(f"{path}: no ONNX model, or a damaged one ({error}); copy it again") from None
    for name in sorted(external):
        if leads_out(name):
            raise InputError(f"{path}: its weights are to be read from {name!r}, outside its folder; export it again")
        refuse_special(path.parent / name)
        if not (path.parent / name).is_file():
            raise InputError(f"{path}: its weights are in the file {name!r}, which is not there; copy it, too")
    return OnnxFile(frozenset(external), frozenset(operations))


def _found(model: memoryview) -> Iterator[tuple[str, memoryview]]:
    """Every `operation` and `external data` of a model, at any depth."""
    messages = [("model", model)]
    while messages:
        kind, message = messages.pop()
        parts = _PARTS[kind]
        for number, content in _fields(message):
            part = parts.get(number)
            if part in _PARTS:
                messages.append((part, content))
            elif part is not None:
                yield part, content


def _location(entry: memoryview) -> str | None:
    """The file that an entry of a tensor's external data names, if it is such an entry."""
    texts = {number: str(content, "utf-8") for number, content in _fields(entry)}
    return texts.get(2, "") if texts.get(1) == "location" else None


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """The numbers and contents of a message's fields that are strings or messages. Raises ValueError."""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        kind = key & 7
        if kind == _VARINT:
            _, position = _varint(message, position)
            continue
        if kind == _BYTES:
            size, position = _varint(message, position)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"a field of unknown kind {kind}")
        if position + size > len(message):
            raise ValueError("it ends early")
        if kind == _BYTES:
            yield key >> 3, message[position : position + size]
        position += size


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    """The number at a position, and the position after it. Raises ValueError."""
    number = 0
    for index, byte in enumerate(message[position : position + _LONGEST_VARINT]):
        number |= (byte & 127) << 7 * index
        if byte < 128:
            return number, position + index + 1
    raise ValueError("it ends early")
