"""Where and with what a benchmark ran."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def machine() -> dict[str, Any]:
    """Where and with what this ran."""
    cpu = platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next(x.split(":")[1].strip() for x in lines if x.startswith("model name"))
    except (OSError, StopIteration):
        pass
    from phipsi.native import host_target

    host = host_target()
    packages = ("numpy", "llvmlite", "pin", "libpinocchio", "mujoco", "drake", "example-robot-data")
    versions: dict[str, str] = {"python": platform.python_version()}
    for name in packages:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"

    def git(*args: str) -> str:
        done = subprocess.run(["git", "-C", str(HERE), *args], capture_output=True, text=True)
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--", "../src").splitlines()
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "llvm name": host.cpu,
        "lanes": host.lanes,
        "system": f"{platform.system()} {platform.release()}",
        "versions": versions,
        "commit": git("rev-parse", "HEAD"),
        "changed files in src": len(changed),
        "load before": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
    }
