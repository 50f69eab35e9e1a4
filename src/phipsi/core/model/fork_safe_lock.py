"""ForkSafeLock: a lock for caches that survives a fork."""

from __future__ import annotations

import os
from threading import RLock


class ForkSafeLock:
    """One entry of a cache is built at a time; a forked process has a lock of its own."""

    def __init__(self) -> None:
        self._release()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._release)

    def _release(self) -> None:
        self.lock = RLock()
