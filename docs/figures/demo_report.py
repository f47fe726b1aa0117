"""The README's two pictures of the report that `make demo` writes: python docs/figures/demo_report.py

It reads runs/demo/report.html, or the file that is named.
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

IMAGES = Path(__file__).parent.parent / "images"
REPORT = Path("runs") / "demo" / "report.html"


def main() -> None:
    report = Path(sys.argv[1]) if len(sys.argv) > 1 else REPORT
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1180, "height": 940})
        page.goto(report.resolve().as_uri())
        page.screenshot(path=IMAGES / "report_verdict.png")
        page.locator("section[id$=decomposition]").screenshot(path=IMAGES / "report_uncertainty.png")
        browser.close()


if __name__ == "__main__":
    main()
