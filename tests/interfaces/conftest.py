"""A browser for the tests of pages: Debian's chromium, without a screen."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed: scripts/system_packages.sh installs it")
    # only WebGL is drawn by the slow stand-in for a graphics processor, not the page around it
    software = ["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
                "--disable-gpu-compositing"]  # fmt: skip
    with api.sync_playwright() as play:
        one = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", *software])
        plain = one.new_page

        def patient(**options: Any) -> Any:
            """A page of a browser that may share the machine with much else."""
            tab = plain(**options)
            tab.set_default_timeout(120_000)
            return tab

        one.new_page = patient
        yield one
        one.close()
