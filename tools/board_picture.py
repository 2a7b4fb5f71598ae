"""The README's picture of the board: the top of the page, as Chromium shows it.

python tools/board_picture.py         # docs/board.png, from results/; $HARNESS_BROWSER names another Chromium
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent


def main() -> None:
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = Path(folder) / "board.html"
        report = [
            "report",
            "--results",
            "results",
            "--html",
            str(page_file),
            "--title",
            "Multilingual sentence embeddings",
        ]
        subprocess.run([sys.executable, "-m", "typer", "tools/commands.py", "run", *report], cwd=ROOT, check=True)
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
