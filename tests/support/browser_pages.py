"""Pages in a real browser, for the tests of everything that is looked at."""

from typing import Any


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
