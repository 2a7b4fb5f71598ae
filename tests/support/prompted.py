"""A package whose encoders take a prompt, or do not; each computes next to nothing."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from packages import offering

MODULE = '''
import copy
import numpy as np
from harness.encoders.info import EncoderInfo, never

class Prompted:
    """A vector counts the letters of prompt and sentence."""
    dim, uses_lang, made, asked = 32, False, [], []

    def __init__(self, prompt, name):
        self.prompt, self.name, self.usage = prompt, name, {"texts": 0}
        self.made.append(prompt)

    @property
    def fingerprint(self):
        return f"prompted|prompt:{self.prompt}"

    def encode(self, sentences, *, lang=None):
        self.usage["texts"] += len(sentences)
        self.asked.append(self.prompt)
        rows = [np.bincount([ord(c) % 32 for c in self.prompt + text], minlength=32) for text in sentences]
        return np.array(rows, np.float32).reshape(len(sentences), 32)

class Sharing(Prompted):
    def with_prompt(self, prompt):
        other = copy.copy(self)
        other.prompt = prompt
        return other

def make(*, prompt: str = "own: ", name: str = "p"):
    return Prompted(prompt, name)

prompted = EncoderInfo(make, "letters of prompt and sentence", "tests", runs_code=never)

alias = EncoderInfo(make, "the same with a prompt", "tests", options={"prompt": "alias: "}, runs_code=never)

def sharing(*, prompt: str = "own: ", name: str = "p"):
    return Sharing(prompt, name)

def plain(*, name: str = "plain"):
    return Prompted("", name)

def anything(**options):
    return Prompted("", "anything")

def its_own(*, prompt_query: str = "none"):
    return Prompted(prompt_query, "its-own")
'''
_KINDS = ("prompted", "alias", "sharing", "plain", "anything", "its_own")


def offered(folder: Path) -> AbstractContextManager[None]:
    """A `with` block in which the package is installed in `folder`."""
    entries = "".join(f"{name.replace('_', '-')} = with_prompts:{name}\n" for name in _KINDS)
    return offering(folder, "with_prompts", MODULE, f"[harness.encoders]\n{entries}")
