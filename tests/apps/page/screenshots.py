"""Makes the pictures of the page in the documentation: `python -m tests.apps.page.screenshots`.

Every picture shows the whole page with a file of a simulated household: eight weeks of half
hours as Green Button XML, and four days of readings of 6 s as CSV. One shows the page of a
stream of three days.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import hushmeter as hm
from tests.apps.page.chromium import (
    find_chromium,
    running_browser,
    running_server,
    wait_until_drawn,
)

DOCS = Path(__file__).resolve().parents[3] / "docs"
COLOURS = 128
LARGEST = 300_000
ZONE = "Europe/London"
DESKTOP: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}}
PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "has_touch": True,
    "is_mobile": True,
}
PICTURES = {
    "page-desktop.png": ("hourly", DESKTOP, "light"),
    "page-desktop-dark.png": ("hourly", DESKTOP, "dark"),
    "page-phone-light.png": ("hourly", PHONE, "light"),
    "page-phone.png": ("hourly", PHONE, "dark"),
    "page-6s-desktop.png": ("6 s", DESKTOP, "light"),
    "page-6s-desktop-dark.png": ("6 s", DESKTOP, "dark"),
    "page-6s-phone-light.png": ("6 s", PHONE, "light"),
    "page-6s-phone.png": ("6 s", PHONE, "dark"),
}
"""Name of each picture: the file that is shown, the device and the colours."""

STREAM = "live-page.png"
"""Name of the picture of a stream."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=DOCS, help="folder of the pictures")
    options = parser.parse_args()
    executable = find_chromium()
    if executable is None:
        parser.error("no chromium here; install it or name one in HUSHMETER_CHROMIUM")
    with (
        tempfile.TemporaryDirectory() as folder,
        running_server(Path(folder) / "log") as address,
        running_browser(executable) as browser,
    ):
        files = write_files(Path(folder))
        for name, (kind, device, scheme) in PICTURES.items():
            page = show(browser, address, files[kind], device, scheme)
            take(page, options.output / name)
            page.context.close()
        take_stream(browser, Path(folder), options.output / STREAM)


def take_stream(browser: Any, folder: Path, path: Path) -> None:
    """The picture of the page of a stream."""
    state = folder / "live.db"
    readings = hm.synth.household(3, interval_s=60.0, zone=ZONE, seed=2).trace
    hm.write_meter(folder / "stream.csv", readings)
    words = ["stream.csv", "--interval", "60s", "--hide", "kettle", "--views", "--to", "shared"]
    subprocess.run(
        [sys.executable, "-m", "hushmeter", "live", *words, "--state", str(state), "--once"],
        cwd=folder,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    with running_server(folder / "live.log", "--watch", str(state)) as address:
        page = browser.new_page(**DESKTOP, color_scheme="light", reduced_motion="reduce")
        page.goto(address)
        page.wait_for_selector("#live-attacker .main-svg", state="attached")
        page.wait_for_timeout(500)
        take(page, path)
        page.close()


def write_files(folder: Path) -> dict[str, Path]:
    """Readings of a simulated household as two files."""
    hourly, fine = folder / "my-meter.xml", folder / "my-logger.csv"
    hm.write_meter(hourly, hm.synth.household(56, interval_s=1800.0, zone=ZONE, seed=2).trace)
    hm.write_meter(fine, hm.synth.household(4, interval_s=6.0, zone=ZONE, seed=2).trace)
    return {"hourly": hourly, "6 s": fine}


def show(browser: Any, address: str, file: Path, device: dict[str, Any], scheme: str) -> Any:
    """The page with a file, after somebody has ticked what nobody should know.

    Nobody should know the times of the first file, and whether the kettle ran in the other one.
    """
    context = browser.new_context(
        **device, color_scheme=scheme, reduced_motion="reduce", timezone_id=ZONE
    )
    page = context.new_page()
    page.goto(address)
    page.set_input_files("#file", file)
    wait_until_drawn(page)
    hidden = "#have input[value=kettle]"
    page.check(hidden if file.suffix == ".csv" else "#people input >> nth=0", force=True)
    page.wait_for_timeout(100)
    wait_until_drawn(page)
    page.wait_for_selector("#verdict strong")
    page.wait_for_selector("#left li", timeout=120_000)
    page.wait_for_function("() => !/first/.test(document.querySelector('#left-note').textContent)")
    # Plotly draws the last texts of a chart a moment after the chart.
    page.wait_for_timeout(300)
    page.evaluate("() => { document.activeElement.blur(); scrollTo(0, 0); }")
    return page


def take(page: Any, path: Path) -> None:
    """A screenshot with a palette of its own, which is a fraction of the size."""
    from PIL import Image

    page.screenshot(path=path, full_page=True)
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    small.save(path, optimize=True)
    if path.stat().st_size > LARGEST:
        raise SystemExit(f"{path} has {path.stat().st_size} bytes, more than {LARGEST}.")


if __name__ == "__main__":
    main()
