"""One table of texts that try to be more than text, and what reads each output back, independently of what wrote it."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections import Counter

from markdown_it import MarkdownIt

from harness.report.pages import BEGIN, END

HOSTILE = {
    "html": "<script>alert(1)</script><img src=https://evil.example/p.png onerror=alert(1)>",
    "html, open": "<!-- <details><a href='javascript:alert(1)'>",
    "html behind a backslash": "\\<b>x\\</b> \\\\<i>",
    "markers": f"{END} {BEGIN}",
    "cells": "a|b|c \\| d \\",
    "cells of markup": "</text><text>]]>&amp;\ufffe",
    "lines": "a\n\n# H\n\n| x | y |\n|---|---|\n| 1 | 2 |\n\n- item\r\n<hr>",
    "other line ends": "a\rb\x0bc\x0cd\x85e\u2028f\u2029g",
    "links": "[a](https://evil.example) ![b](https://evil.example/p.png) [c][d] <https://evil.example>",
    "a definition": "[d]: https://evil.example",
    "a definition on its own line": "x\n\n[d]: https://evil.example 'd'\n",
    "bare links": "https://evil.example www.evil.example",
    "entities": "&lt;script&gt; &#x202e; &#60;b&#62;",
    "code": "`a` ``b`` ```\n```\n<b>c</b> \\`<i>d</i>`",
    "a fence": "~~~\n```sh\nrm -rf /",
    "ticks": "`",
    "maths": "$\\href{https://evil.example}{x}$",
    "terminal": "\x1b]0;pwned\x07\x1b[31mred\x1b[2J\x00\x08\x7f",
    "terminal, 8 bits": "\x9b31mred\x9d0;pwned\x9c",
    "emphasis of words": "__bold__ ~~gone~~ ~gone~ _it_ a __b_ _c__d_ (_e_)",
    "addresses": "a@b.co a.b+c-d_@x-y.b_c.co a@.b.co",
    "mentions": "@user @org/team (@user) -@user. ./@user",
    "no width": "a\u200bb\ufeffc\xadd\u2060e\u180ef",
    "direction, marks": "a\u200eb\u200fc\u061cd",
    "tags": "a\U000e0001\U000e0041b\U000e007f",
    "direction": "\u202eevil\u202c \u2066x\u2069 \u2067y\u2068",
    "a command": "::warning file=x::PWNED",
    "commands": "x\n::stop-commands::t\n  ::error::y\n\u00a0::add-mask::z\r::debug::w",
    "old commands": "##[error]x ##[add-mask]y",
    "formula": "=cmd|'/C calc'!A0",
    "formula, plus": "+1+cmd|x",
    "formula, minus": "-2+3",
    "formula, at": "@SUM(1)",
    "formula, full width": "＝1+1",
    "formula behind a tab": "\t=1+1",
    "formula behind a quote": '"=1+1',
    "formula behind a blank": " =1+1",
    "formula in another cell": 'a;=1+1;"=2"',
    "formula in another line": "a\n=1+1",
    "TeX": r"\input{/etc/passwd} ^^5cinput %$#&_{}~ \\",
    "TeX, a length": "[1em] x",
    "TeX, a star": "* x",
}
NOT_UNICODE = {"half of a pair": "a\ud800b", "a byte of a path": "a\udcffb"}


def harmless() -> dict[str, str]:
    """As many texts that are nothing but text. (What follows an `@` is the tag of a set, which gets a note.)"""
    tags = {name: f"@{number}" if "@" in one else "" for number, (name, one) in enumerate(HOSTILE.items())}
    return {name: f"text {number}{tags[name]}" for number, name in enumerate(HOSTILE)}


# Characters of format that scripts need (joiner and non-joiner), or that show (Prepended_Concatenation_Mark of
# Unicode's PropList.txt, and the controls of hieroglyphs).
_NEEDED = {"\u200c", "\u200d", *"\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"}
_NEEDED |= {chr(code) for code in (*range(0x600, 0x606), *range(0x13430, 0x13456))}


def hidden(text: str) -> list[str]:
    """Characters that act or hide, but for line feeds."""
    return [
        c for c in text if c not in _NEEDED and c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    ]


# What makes a mention of a person, or an address, of text in which no escapes are left (html-pipeline's MentionFilter
# and cmark-gfm's extended autolinks).
_LINKED = re.compile(r"(^|\W)@[a-z0-9]|[a-z0-9.+_-]@[a-z0-9._-]*\.[a-z0-9]", re.IGNORECASE)


def linked(text: str) -> list[str]:
    """What GitHub takes for mentions or addresses in a line of Markdown without links, pictures and code."""
    tokens = MarkdownIt("commonmark", {"html": True}).parseInline(text)[0].children or []
    parts = "".join("\0" if token.type == "html_inline" else token.content for token in tokens).split("\0")
    return [found[0] for part in parts for found in _LINKED.finditer(part)]


def commands(text: str) -> list[str]:
    """Lines that the runner of GitHub Actions takes for its commands (actions/runner, `ActionCommand`)."""
    return [line for line in re.split("[\r\n]", text) if line.lstrip().startswith("::") or "##[" in line]


def formulas(text: str, delimiter: str) -> list[str]:
    """Cells that a spreadsheet takes for formulas, however it takes separators; numbers are none."""
    found = []
    for separator in {delimiter, ";", "\t"}:
        for row in csv.reader(io.StringIO(text), delimiter=separator):
            begun = [cell for cell in row if cell.lstrip('\t\r\n "')[:1] in tuple("=+-@＝＋－＠")]
            found += [cell for cell in begun if not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?(e-?[0-9]+)?", cell)]
    return found


def markdown_shape(text: str) -> Counter[str]:
    """How many blocks of each kind there are; asserts that nothing in there is HTML or leads elsewhere."""
    environment: dict[str, object] = {}
    tokens = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(text, environment)
    assert not environment.get("references"), environment
    for token in [inner for outer in tokens for inner in (outer, *(outer.children or ()))]:
        if token.type == "html_block":
            assert re.fullmatch(r"<!-- (Made by .* edits are lost\.|leaderboard:(begin|end)) -->\s*", token.content)
        elif token.type == "html_inline":
            assert token.content in ("<br>", "<sub>", "</sub>", "<!-- -->"), token.content
        target = token.attrGet("href") or token.attrGet("src") or ""
        is_ours = str(target).startswith("https://arxiv.org/")
        assert is_ours or not re.match(r"[a-z+.-]+:|//", str(target), re.IGNORECASE), target
        assert not hidden(token.content), token.content
    return Counter(token.type for token in tokens)


def tex_shape(text: str) -> Counter[str]:
    """Control words and what separates cells and rows; of a line that is a comment, that it is one."""
    text = re.sub(r"^% .*$", "%", text, flags=re.MULTILINE)
    words = re.findall(r"\\(?:[A-Za-z]+|.)|(?<!\\)[&%#$~^]", text, re.DOTALL)
    return Counter(word for word in words if word in ("&", "%", "#", "^", "~", r"\\", r"\input", r"\href", r"\par"))
