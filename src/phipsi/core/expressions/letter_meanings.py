"""Letters with several meanings in one paper: which one is tried at each place of a text."""

from __future__ import annotations

from phipsi.core.expressions.node import Expr


class Meanings:
    """Which meaning each letter with several has, in the order in which they are read."""

    def __init__(self) -> None:
        self._chosen: list[int] = []
        self._known: list[int] = []
        self._at = 0

    def restart(self) -> None:
        """Read the text, or texts, once more."""
        self._at = 0

    def take(self, meanings: tuple[Expr, ...]) -> Expr:
        """The meaning of the next letter."""
        if self._at == len(self._chosen):
            self._chosen.append(0)
            self._known.append(len(meanings))
        self._at += 1
        return meanings[self._chosen[self._at - 1]]

    def advance(self) -> bool:
        """Change the last letter that has another meaning; whether there is one."""
        del self._chosen[self._at :], self._known[self._at :]
        while self._chosen and self._chosen[-1] + 1 == self._known[-1]:
            self._chosen.pop()
            self._known.pop()
        if self._chosen:
            self._chosen[-1] += 1
        return bool(self._chosen)
