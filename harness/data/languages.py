"""Language codes: whether one exists, and which codes mean the same language."""

from __future__ import annotations

from functools import lru_cache

from harness.core.errors import InputError

# Codes that are the shortest of their language, and others of our data and encoders: `langcodes`, which says the same,
# takes 40 ms to import, and tables ask for the languages of everything that they show.
_CODES = """
aa ab ae af ak am an ar as av ay az ba be bg bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en eo
es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv ka
kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng
nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su
sv sw ta te tg th ti tk tn to tr ts tt ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
ang arq arz ast awa azb bar ber bpy cbk ceb csb dsb dtp gsw haw hmn hsb kab lfn lmo max min nds new nov orv pam
pms scn sco swg tzl war wuu yue
"""
_SHORTEST = frozenset(_CODES.split())
_SHORTER = {"kzj": "dtp", "mhr": "chm", "pnb": "lah", "sh": "sr", "tl": "fil"}


@lru_cache(maxsize=1024)
def standard_language(code: str) -> str:
    """The shortest code of a language: `de` of `deu`, `ger` and `de_AT`, `zh` of `cmn`, `kab` of `kab`.

    Script and region are left out.

    Raises:
        InputError: no language has this code (ISO 639).
    """
    if code in _SHORTEST:
        return code
    if code in _SHORTER:
        return _SHORTER[code]
    from langcodes import standardize_tag, tag_is_valid
    from langcodes.tag_parser import LanguageTagError

    try:
        base = standardize_tag(code.replace("_", "-"), macro=True).partition("-")[0]
        if tag_is_valid(base):
            return base
    except LanguageTagError:
        pass
    raise InputError(f"language {code!r} is no code of ISO 639; give one such as de, tr or kab")
