r"""Text that others wrote, made harmless: one function for each kind of output.

Names, versions, messages and sentences of records, imports, data and third parties' encoders may hold anything: HTML,
pipes, line ends, a terminal's escape sequences, commands to a CI runner, formulas. Whoever prints them says here where
they go. What is honest stays as it is; what would do something, or hide something, is shown as `\x1b` or `\u202e`.
"""

from __future__ import annotations

import html
import json
import re
from functools import lru_cache
from typing import Any
from urllib.parse import quote

# C0, DEL and C1 controls, line and paragraph separators, halves of surrogate pairs (which have no UTF-8), two code
# points that XML does not have, and characters of format (Cf): of no width, of the direction of writing, tags. Not the
# joiner and non-joiner, nor those that show: signs of Arabic, Syriac and Kaithi, and what places hieroglyphs.
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff"
    "\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f]"
)


def visible(text: str, *, keep: str = "") -> str:
    r"""Returns one line, in which what does not print is spelt as in Python: `\n`, `\x1b`, `\u202e`.

    It has a UTF-8 form. That is enough for a cell of a plain table, an attribute of an XML library's or a part of a
    message. The characters of `keep` stay as they are.
    """
    if text.isprintable():  # nearly always
        return text
    return _HIDDEN.sub(lambda m: m[0] if m[0] in keep else m[0].encode("unicode_escape").decode(), text)


def terminal(text: str) -> str:
    """Returns lines for a terminal or a log: all visible but tabs and line feeds, and no commands to a CI runner."""
    return without_commands(visible(text, keep="\t\n"))


def terminal_line(text: str) -> str:
    """Returns one line for a terminal or a log, of a name or a path that may hold line feeds."""
    return without_commands(visible(text))


def without_commands(text: str) -> str:
    """Returns lines to print that the runner of GitHub Actions, which reads all output, does not take for commands.

    The runner looks for `::` at the start of a line, behind white space too, and for `##[` anywhere.
    """
    return re.sub(r"^(\s*)::", r"\1\\::", text.replace("##[", r"##\["), flags=re.MULTILINE)


def annotation(text: str) -> str:
    """The message of a command to the runner of GitHub Actions (`escapeData` of actions/toolkit); lines stay lines."""
    return visible(text, keep="\n").replace("%", "%25").replace("\n", "%0A")


def annotation_property(text: str) -> str:
    """The same for a property of the command (`escapeProperty`)."""
    return annotation(text).replace(":", "%3A").replace(",", "%2C")


# `[1]`, `[low, high]: 95 % interval` and `_` inside a word need no escape; `|` would end a cell.
_MARKDOWN = re.compile(
    r"[\\|<*`$~]"
    r"|(?<!\w)_+|_+(?!\w)"
    r"|&(?=#?\w+;)"  # entities
    r"|\](?=[(\[]|:\s*\S+\s*($|[\"'(]))"  # links and pictures, and definitions of their targets
    r"|(?<=:)/(?=/)|(?<=(?<![^\s*_~(])www)\."  # what GitHub makes a link by itself
    r"|(?<!\w)@(?=[a-z0-9])|(?<=[\w.+-])@(?=[\w.-]*\.\w)",  # and a mention or an address
    re.IGNORECASE,
)


def markdown(text: str) -> str:
    """Returns text for GitHub Markdown, tables included, that makes no HTML, link, mention, emphasis, cell or line."""
    return _MARKDOWN.sub(_markdown_escape, visible(text))


def _markdown_escape(match: re.Match[str]) -> str:
    # GitHub looks for mentions and addresses when escapes are gone, so only an empty comment keeps it from that.
    return "@<!-- -->" if match[0] == "@" else "".join(f"\\{character}" for character in match[0])


def code(text: str, *, in_table: bool = False) -> str:
    """Returns a code span of Markdown. In a table, pipes are escaped in code too."""
    text = visible(text).replace("|", r"\|" if in_table else "|")
    ticks = "`" * _unused_ticks(text)
    blank = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{blank}{text}{blank}{ticks}" if text else ""


def code_block(text: str, language: str = "") -> str:
    """Returns a fenced block of Markdown with these lines. Make a part `visible` first if it must stay on one line."""
    ticks = "`" * max(3, _unused_ticks(text))
    return f"{ticks}{language}\n{visible(text, keep=chr(10))}\n{ticks}"


def _unused_ticks(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0) + 1


def link_target(path: str) -> str:
    """A relative path as the target of a link or a picture in Markdown."""
    return quote(path, errors="surrogateescape")


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "–": "--",
    "†": r"\textdagger{}",
    **{character: "\\" + character for character in "&%$#_{}"},
}
# A minus before a number or between blanks is none of the hyphens; two hyphens would become a dash.
_MATHS = re.compile(r"(--|(?<![\w-])-(?=\d)|(?<= )-(?= )|>=|\bx(?= 100\b))")
_LATEX_MATHS = {"-": "$-$", "--": "-{}-", ">=": r"$\geq$", "x": r"$\times$"}


def latex(text: str) -> str:
    """Returns text for LaTeX."""
    return "".join(
        _LATEX_MATHS.get(part) or "".join(_LATEX.get(character, character) for character in part)
        for part in _MATHS.split(visible(text))
    )


def bibtex_comment(text: str) -> str:
    """Returns one line between the entries of a BibTeX file, where BibTeX takes every `@` for the start of an entry."""
    return terminal_line(f"% {text}").replace("@", "(at)")


def xml(text: str) -> str:
    """Returns character data or an attribute of XML, as in an SVG."""
    return html.escape(visible(text), quote=False).replace('"', "&quot;")


# Controls but the tab and line ends, halves of surrogate pairs, and the two that no plane ends with.
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def xml_text(text: str) -> str:
    """Returns character data or an attribute of XML that is read back as it was: data, and not for display.

    What XML 1.0 does not have becomes U+FFFD.
    """
    return html.escape(_NOT_XML.sub("\ufffd", text), quote=False).replace('"', "&quot;")


def json_text(value: Any, **options: Any) -> str:
    """`json.dumps` that leaves letters as they are and escapes whatever does not print; it is read back as it was.

    Printed, it is no command to a CI runner either (see `without_commands`): only texts hold `##[`.
    """
    text = json.dumps(value, ensure_ascii=False, **options).replace("##[", r"\u0023#[")
    if text.replace("\n", "").isprintable():  # takes a fraction of the time
        return text
    return _HIDDEN.sub(lambda m: m[0] if m[0] == "\n" else _json_escape(m[0]), text)


def _json_escape(character: str) -> str:
    """Returns `\\u0007` for U+0007, and two halves of a surrogate pair beyond U+FFFF."""
    return re.sub("....", r"\\u\g<0>", character.encode("utf-16-be", "surrogatepass").hex())


# What begins a formula (https://owasp.org/www-community/attacks/CSV_Injection), also in full width. `;` separates
# the cells of a .csv where the comma is the decimal sign.
_FORMULA = re.compile(r'(^|;)(?=[\s"]*[=+\-@＝＋－＠])')


@lru_cache(maxsize=4096)  # the cells of a column repeat
def spreadsheet(text: str) -> str:
    """Returns a text as a cell of CSV or TSV that no spreadsheet takes for a formula. Do not pass numbers."""
    return _FORMULA.sub(r"\1'", visible(text))
