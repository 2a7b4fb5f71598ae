"""What draws a specification: `vl-convert`, which has Vega inside. No browser, no network."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from harness.charts.theme import VEGA_LITE
from harness.core import escaping
from harness.core.errors import MissingExtraError

EXTRA = "board"
_DIGITS = 2
_TAG = re.compile(r'<[^<>"]*(?:"[^"]*"[^<>"]*)*>')
_ATTRIBUTE = re.compile(r'\b(d|transform|x|y|x1|x2|y1|y2|cx|cy|r|width|height|viewBox|points)="([^"]*)"')
_FOR_A_PAGE = "window.vegaEmbed = vegaEmbed;"
# What is in a picture is not read out; its title is. In a page, Vega draws anew, with all of these.
_ARIA = re.compile(r' (?:aria-[a-z]+|role)="[^"]*"')
_LONG = re.compile(rf"-?\d+\.\d{{{_DIGITS + 1},}}(?:e-?\d+)?")


def is_available() -> bool:
    """Whether what charts need is installed: the extra `board`."""
    return all(find_spec(module) is not None for module in ("altair", "vl_convert"))


def needs(what: str) -> str:
    """`WHAT needs: `, and the command that installs it."""
    return str(MissingExtraError(what, EXTRA))


def require() -> None:
    """Raises MissingExtraError, with the command that installs it, where the extra is not installed."""
    if not is_available():
        raise MissingExtraError("drawing charts", EXTRA)


def svg(spec: Mapping[str, Any]) -> str:
    """The picture of a specification, an SVG that needs nothing else; it ends with a line feed.

    Text is measured with a font that the converter has in it, and coordinates have two decimals, so the same version of
    the converter gives the same bytes everywhere. Only of letters that this font lacks (those of Asia, say) the width
    depends on the fonts of the machine; they stand where nothing is aligned by them.

    Raises:
        MissingExtraError: the extra `board` is not installed.
    """
    require()
    import vl_convert

    # No address is allowed: a specification has its data in itself.
    drawn = vl_convert.vegalite_to_svg(dict(spec), vl_version=VEGA_LITE, allowed_base_urls=[])
    head, end, rest = _TAG.sub(_shorter, drawn).partition(">")
    title = f"<title>{escaping.xml(str(spec.get('description', '')))}</title>"
    return f"{head}{end}{title}{rest}".rstrip("\n") + "\n"


def _shorter(tag: re.Match[str]) -> str:
    """A tag without what nobody sees."""
    return _ATTRIBUTE.sub(lambda m: f'{m[1]}="{_LONG.sub(_short, m[2])}"', _ARIA.sub("", tag[0]))


def _short(match: re.Match[str]) -> str:
    return f"{round(float(match[0]), _DIGITS) + 0.0:g}"


def javascript_bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one ES module, to stand in a page's `<script type="module">`.

    It defines `window.vegaEmbed`. With the option `ast: true` that interprets expressions by itself (its fallback is
    in the bundle), so that a page's content policy need not allow 'unsafe-eval'. `</script` in it must be broken up.

    Raises:
        MissingExtraError: the extra `board` is not installed.
    """
    require()
    import vl_convert

    return vl_convert.javascript_bundle(_FOR_A_PAGE, VEGA_LITE)
