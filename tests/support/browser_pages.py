"""Pages in a real browser, for the tests of everything that is looked at."""

from typing import Any


def hear(tab: Any, told: list[str]) -> None:
    """Adds to `told` what a page says from now on, and its errors.

    Left out is the browser's own remark that it waits for the pixels of WebGL: it copies them to
    the screen itself, as it composes pages without a graphics processor.
    """

    def add(message: Any) -> None:
        if "GPU stall due to ReadPixels" not in message.text:
            told.append(message.text)

    tab.on("console", add)
    tab.on("pageerror", lambda error: told.append(str(error)))


ROUGH: dict[str, Any] = {"device_scale_factor": 0.5}
"""Options of a page whose pictures need no detail: a quarter of the pixels, the same layout."""


def rough_shadows(tab: Any) -> None:
    """Shadows of few pixels from the next picture on: they cost as much as all that is seen."""
    tab.evaluate("""() => { const { shadow } = page.scene.sun;
        shadow.mapSize.set(64, 64); page.scene.renderer.shadowMap.needsUpdate = true;
        if (shadow.map) { shadow.map.dispose(); shadow.map = null; } }""")


def until(tab: Any, condition: str) -> None:
    """Waits for a condition, asked from outside: the page's policy forbids code made of text.

    `wait_for_function` evaluates the text inside the page when the first look comes too early.
    """
    for _ in range(2400):
        if tab.evaluate(condition):
            return
        tab.wait_for_timeout(50)
    raise AssertionError(f"two minutes went by without {condition}")


def drawn(tab: Any) -> None:
    """Waits until what the page has now is on the screen: it draws in every frame."""
    tab.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
