"""Language codes: whether one exists, and which codes mean the same language."""

from __future__ import annotations

from functools import lru_cache

from harness.core.errors import InputError


@lru_cache(maxsize=1024)
def standard_language(code: str) -> str:
    """The shortest code of a language: `de` of `deu`, `ger` and `de_AT`, `zh` of `cmn`, `kab` of `kab`.

    Script and region are left out.

    Raises:
        InputError: no language has this code (ISO 639).
    """
    from langcodes import standardize_tag, tag_is_valid
    from langcodes.tag_parser import LanguageTagError

    try:
        base = standardize_tag(code.replace("_", "-"), macro=True).partition("-")[0]
        if tag_is_valid(base):
            return base
    except LanguageTagError:
        pass
    raise InputError(f"language {code!r} is no code of ISO 639; give one such as de, tr or kab")
