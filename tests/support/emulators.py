"""Exported code on other processors, in emulators: one compiler for all, and no C library.

A small program calls a function at some states and writes the bits of its results in hexadecimal
digits, then its statuses; on microcontrollers also the instructions of every call.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from phipsi.codegen.export import Exported

_SHARED = """
typedef unsigned int u32;
typedef unsigned long long u64;
#include "robot.h"
#include "states.h"
void *memcpy(void *to, const void *from, __SIZE_TYPE__ n) {
  volatile char *a = to; const char *b = from;
  while (n--) *a++ = *b++;
  return to;
}
void *memset(void *to, int x, __SIZE_TYPE__ n) {
  volatile char *a = to;
  while (n--) *a++ = (char)x;
  return to;
}
static void say(char *text, int length);
static void hex(u64 x, int digits) {
  char s[18];
  for (int i = 0; i < digits; i++) {
    u32 d = (u32)(x >> (4 * (digits - 1 - i))) & 15;
    s[i] = (char)(d < 10 ? '0' + d : 'a' + d - 10);
  }
  s[digits] = '\\n'; s[digits + 1] = 0;
  say(s, digits + 1);
}
static u64 work[ROBOT_WORK / 8 + 8];
static NUMBER out[OUT];
static int call(int i) { return FUNCTION(INPUTS, out, work); }
static void report(void) {
  for (u32 i = 0; i < sizeof work / 4; i++) ((u32 *)work)[i] = 0xffffffff;
  int failed = 0;
  for (int i = 0; i < N; i++) {
    failed |= call(i);
    for (int j = 0; j < OUT; j++) {
      union { NUMBER x; BITS bits; } u = {out[j]};
      hex(u.bits, 2 * (int)sizeof(NUMBER));
    }
  }
  for (int i = ROBOT_WORK / 8; i < ROBOT_WORK / 8 + 8; i++)
    if (work[i] != 0xffffffffffffffffull) failed |= 1 << 20;
  hex((u64)failed, 8);
}
"""
_LINUX = """
static long system_call(long number, long a, long b, long c);
static void say(char *text, int length) { system_call(64, 1, (long)text, length); }
void _start(void) {
  report();
  system_call(93, 0, 0, 0);
}
"""
_AARCH64 = """
static long system_call(long number, long a, long b, long c) {
  register long x8 __asm__("x8") = number, x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b, x2 __asm__("x2") = c;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
  return x0;
}
"""
_ARMV7 = """
static long system_call(long number, long a, long b, long c) {
  register long r7 __asm__("r7") = number == 64 ? 4 : 1, r0 __asm__("r0") = a;
  register long r1 __asm__("r1") = b, r2 __asm__("r2") = c;
  __asm__ volatile("svc 0" : "+r"(r0) : "r"(r7), "r"(r1), "r"(r2) : "memory");
  return r0;
}
"""
_RISCV64 = """
static long system_call(long number, long a, long b, long c) {
  register long a7 __asm__("a7") = number, a0 __asm__("a0") = a;
  register long a1 __asm__("a1") = b, a2 __asm__("a2") = c;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2) : "memory");
  return a0;
}
"""
_THUMB = """
static int host(int operation, const void *argument) {
  register int r0 __asm__("r0") = operation;
  register const void *r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}
static void say(char *text, int length) { (void)length; host(4, text); }
#define TIMER ((volatile u32 *)0xE000E010)
void start(void) {
  *(volatile u32 *)0xE000ED88 |= 0xF << 20; /* the floating-point unit on */
  __asm__ volatile("dsb; isb");
  report();
  for (int i = 0; i < N; i++) { /* ticks of 100 calls, of 40 instructions each */
    TIMER[1] = 0xffffff; TIMER[2] = 0; TIMER[0] = 5;
    u32 before = TIMER[2];
    for (int r = 0; r < 100; r++) call(i);
    hex((before - TIMER[2]) & 0xffffff, 8);
  }
  host(0x18, (void *)0x20026);
}
__attribute__((naked)) void reset(void) { __asm__ volatile("bl start"); }
__attribute__((section(".vectors"), used)) void *const vectors[2] = {(void *)0x20300000, reset};
"""
_LAYOUT = """
MEMORY { CODE (rx) : ORIGIN = 0, LENGTH = 4M  RAM (rw) : ORIGIN = 0x20000000, LENGTH = 2M }
SECTIONS {
  .text : { KEEP(*(.vectors)) *(.text*) *(.rodata*) } > CODE
  .ARM.exidx : { *(.ARM.exidx*) } > CODE
  .bss (NOLOAD) : { *(.bss*) *(COMMON) } > RAM
}
"""


@dataclass(frozen=True)
class Emulator:
    """How code for a target is compiled and run."""

    flags: str
    source: str
    command: str

    @property
    def program(self) -> str:
        """The emulator's name."""
        return self.command.split()[0]


def _board(name: str) -> str:
    return f"qemu-system-arm -M {name} -nographic -semihosting -icount shift=0 -kernel"


EMULATORS = {
    "aarch64-linux": Emulator("--target=aarch64-linux-gnu", _AARCH64 + _LINUX, "qemu-aarch64"),
    "armv7": Emulator(
        "--target=armv7-linux-gnueabihf -mfpu=vfpv3-d16", _ARMV7 + _LINUX, "qemu-arm"
    ),
    "riscv64": Emulator(
        "--target=riscv64-linux-gnu -march=rv64gc -mno-relax", _RISCV64 + _LINUX, "qemu-riscv64"
    ),
    "cortex-m7": Emulator(
        "--target=thumbv7em-none-eabihf -mcpu=cortex-m7 -Wl,-T,layout.ld", _THUMB,
        _board("mps2-an500"),
    ),
    "cortex-m4": Emulator(
        "--target=thumbv7em-none-eabihf -mcpu=cortex-m4 -Wl,-T,layout.ld", _THUMB,
        _board("mps2-an386"),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """Results, their statuses together, and instructions per call (of microcontrollers)."""

    results: np.ndarray
    status: int
    instructions: list[int]


def run(exported: Exported, inputs: Sequence[np.ndarray], folder: Path, number: int = 0) -> Answer:
    """Call a function of an export at states (n, …) on its target."""
    e, f = EMULATORS[exported.target], exported.functions[number]
    for name in ("clang-14", "ld.lld-14", e.program):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed; scripts/system_packages.sh does it")
    assert len(f.outputs) == 1
    kind = json.loads((exported.folder / "export.json").read_text())["number"]
    bytes_, end = (4, "f") if kind == "float" else (8, "")
    lines = [f"#define N {len(inputs[0])}", f"#define OUT {f.outputs[0].count}"]
    lines += [f"#define NUMBER {kind}", f"#define BITS u{8 * bytes_}"]
    lines += [f"#define FUNCTION {f.name}"]
    lines += ["#define INPUTS " + ", ".join(f"GIVEN_{a.name}[i]" for a in f.inputs)]
    for a, x in zip(f.inputs, inputs, strict=True):
        rows = ", ".join(
            "{" + ", ".join(float(y).hex() + end for y in row.ravel()) + "}" for row in x
        )
        lines.append(f"static const {kind} GIVEN_{a.name}[N][{a.count}] = {{{rows}}};")
    (folder / "states.h").write_text("\n".join(lines))
    (folder / "layout.ld").write_text(_LAYOUT)
    (folder / "call.c").write_text(_SHARED + e.source)
    (object_name,) = [n for n in exported.files if n.endswith(".o")]
    common = "-O1 -ffreestanding -fno-builtin -nostdlib -static -fuse-ld=lld-14 -I. -o call"
    words = ["clang-14", *e.flags.split(), *common.split(), f"-I{exported.folder}", "call.c"]
    _checked([*words, str(exported.folder / object_name)], folder)
    said = _checked([*e.command.split(), "./call"], folder)
    lines = said.split()
    count = len(inputs[0]) * f.outputs[0].count
    bits = np.array([int(x, 16) for x in lines[:count]], dtype=f"u{bytes_}")
    ticks = [round(int(x, 16) * 40 / 100) for x in lines[count + 1 :]]
    results = bits.view(f"f{bytes_}").reshape(len(inputs[0]), *f.outputs[0].shape)
    return Answer(results, int(lines[count], 16), ticks)


def _checked(words: Sequence[str], folder: Path) -> str:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout + done.stderr
