"""The README's picture of the board: the top of the page, as Chromium shows it.

python tools/board_picture.py         # docs/board.png, from results/; $HARNESS_BROWSER names another Chromium
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from build_docs import ROOT, make_board  # beside this file


def main() -> None:
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = Path(folder) / "board.html"
        make_board(page_file)
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("HARNESS_BROWSER", "/usr/bin/chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1200, "height": 820}, color_scheme="light")
        page.goto(page_file.as_uri())
        page.wait_for_selector("#table tbody tr")
        page.screenshot(path=ROOT / "docs" / "board.png")
        browser.close()


if __name__ == "__main__":
    main()
