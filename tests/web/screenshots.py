"""Makes the pictures of the page in the documentation: `python -m tests.web.screenshots`."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from tests.web.chromium import find_chromium, open_example, running_browser, running_server

DOCS = Path(__file__).resolve().parents[2] / "docs"
COLOURS = 256
LARGEST = 300_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=DOCS, help="folder of the pictures")
    parser.add_argument("--all", action="store_true", help="both widths in light and dark, whole")
    options = parser.parse_args()
    executable = find_chromium()
    if executable is None:
        parser.error("no chromium here; install it or name one in HUSHMETER_CHROMIUM")
    with (
        tempfile.TemporaryDirectory() as folder,
        running_server(Path(folder) / "log") as address,
        running_browser(executable) as browser,
    ):
        if options.all:
            take_all(browser, address, options.output)
        else:
            take_for_docs(browser, address, options.output)


def take_for_docs(browser: Any, address: str, folder: Path) -> None:
    """page-desktop.png in light and page-phone.png in dark."""
    page = show(browser, address, (1360, 1900), "light")
    page.select_option("#advice-appliance", "kettle")
    page.click("#advice-find")
    page.wait_for_selector("#advice-apply")
    page.locator(".advice").evaluate("advice => scrollTo(0, advice.offsetTop - 20)")
    take(page, folder / "page-desktop.png")
    page = show(browser, address, (390, 844), "dark", scale=2)
    page.locator("#strips-title").evaluate(
        "title => scrollTo(0, scrollY + title.getBoundingClientRect().top - 150)"
    )
    take(page, folder / "page-phone.png")


def take_all(browser: Any, address: str, folder: Path) -> None:
    """The whole page at both widths, light and dark, to be looked at."""
    for name, size in {"desktop": (1360, 900), "phone": (390, 844)}.items():
        for scheme in ("light", "dark"):
            page = show(browser, address, size, scheme)
            page.screenshot(path=folder / f"page-{name}-{scheme}.png", full_page=True)


def show(browser: Any, address: str, size: tuple[int, int], scheme: str, scale: int = 1) -> Any:
    """The example home at rest."""
    width, height = size
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=scheme,
        device_scale_factor=scale,
        reduced_motion="reduce",
    )
    page = context.new_page()
    open_example(page, address)
    # Plotly draws the last texts of a chart a moment after the chart.
    page.wait_for_timeout(300)
    return page


def take(page: Any, path: Path) -> None:
    """A screenshot with a palette of its own, which is a fraction of the size."""
    from PIL import Image

    page.screenshot(path=path)
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    small.save(path, optimize=True)
    if path.stat().st_size > LARGEST:
        raise SystemExit(f"{path} has {path.stat().st_size} bytes, more than {LARGEST}.")


if __name__ == "__main__":
    main()
