"""The browser in which the page is tried. `python tests/support/browsers.py` prints its path; exit 1 without one."""

from __future__ import annotations

import os
import shutil
import sys

BROWSERS = ("google-chrome", "chromium", "chromium-browser")


def a_browser() -> str:
    """The path of the browser that $HARNESS_BROWSER names, else of the first that is installed; empty without one."""
    return os.environ.get("HARNESS_BROWSER", "") or next(filter(None, map(shutil.which, BROWSERS)), "")


if __name__ == "__main__":
    found = a_browser()
    print(found)
    sys.exit(0 if found else 1)
