"""The C99 of an FMU: the runs of its model, their memory, and FMI's functions around them.

One file without headers of its own: generated code comes first, then `assets/fmu_core.c`, then
the functions of one version of FMI. An instance is one block of memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import final

from phipsi.backends.failures import STATUS_WORDS
from phipsi.backends.native.native_backend import KernelSource
from phipsi.backends.native.targets.target import Target
from phipsi.backends.native.text import c_text
from phipsi.exporting.fmu_model import FmuModel
from phipsi.motion import run_code
from phipsi.motion.run_code import Plan, Run

C_TARGET = Target("", "", 1, False)
"""One number at a time, products and sums rounded apart: any C compiler."""
CLOSING_TOLERANCE = 1e-9
"""Relative change of a position or rate beyond which loops are closed again between steps."""


def fmu_source(model: FmuModel, version: str) -> str:
    """The whole file, for FMI "3.0" or "2.0", but for the line that defines TOKEN."""
    head = _Head(model)
    assets = files("phipsi.exporting") / "assets"
    core = (assets / "fmu_core.c").read_text(encoding="utf-8")
    functions = (assets / f"fmi{version[0]}.c").read_text(encoding="utf-8")
    return "\n".join([head.text, f"#define FMI_MAJOR {version[0]}", core, functions])


@final
class _Head:
    """The generated part: programs, tables, sizes, and the layout of memory."""

    def __init__(self, model: FmuModel) -> None:
        self.model = model
        module = c_text.Module()
        self._sources: dict[int, KernelSource] = {}  # by the program's own, for this machine
        runs = {name: self._run(module, name, plan) for name, plan in model.plans.items()}
        for function in module.globals.values():
            function.linkage = "internal"
        self.text = "\n".join([str(module), *self._layout(runs)]) + "\n"

    def _run(self, module: c_text.Module, name: str, plan: Plan) -> Run:
        sources: list[KernelSource] = []
        for native in plan.sources:
            key = id(native)
            if key not in self._sources:
                self._sources[key] = KernelSource(native.program, C_TARGET)
            sources.append(self._sources[key])
        out = Run(module, plan, plan.natives, 1, name, sources)
        for end in ("step", "run_size"):
            del module.globals[f"{name}_{end}"]
        module.roots.append(f"{name}_run")
        return out

    # ---- memory -------------------------------------------------------------------------------

    def _layout(self, runs: dict[str, Run]) -> Iterator[str]:
        model = self.model
        states = sum(model.sizes[x] for x in model.continuous)
        first = model.places["der q"]
        values = {
            "N_VALUES": len(model.variables),
            "N_GIVEN": model.inputs_end,
            "N_STATES": states,
            "FIRST_DERIVATIVE": first,
            "FIRST_RECORD": first + states,
            "N_PERIODS": len(model.periods),
            "FIRST_POSITION": model.places["q"],
            "N_POSITIONS": model.sizes["q"] + model.sizes["v"],
        }
        yield from (f"#define {name} {value}" for name, value in values.items())
        yield f"#define CLOSING_TOLERANCE {CLOSING_TOLERANCE:g}"
        yield f"#define STEP_LENGTH {c_text.number_text(model.simulator.dt)}"
        yield from (f"#define HAS_{name.upper()} 1" for name in runs)
        listed = [c_text.number_text(x) for x in model.starts]
        yield from c_text.listed_table("static const double start_values", listed)
        yield "static const char *const status_texts[8] = {"
        yield from (f'  "{STATUS_WORDS.get(i, "unknown")}",' for i in range(8))
        yield "};"
        periods = ", ".join(map(str, model.periods)) or "0"
        yield f"static const int64_t periods[] = {{ {periods} }};"
        scratch = max(x.scratch_bytes for x in self._sources.values()) // 8 + 8
        yield "typedef struct {"
        yield "  double values[N_VALUES];"
        yield "  int64_t step, tick; /* numbers of the next step, and of the next sample */"
        yield "  double begin; /* time of step 0 */"
        yield "  uint64_t status, failed_at;"
        for name, run in runs.items():
            yield f"  uint64_t {name}_job[{self._words(run.plan)}];"
            yield f"  double {name}_work[{max(1, run.size)}];"
        yield f"  double scratch[{scratch}];"
        if "pull" in runs:
            yield "  double weights[N_VALUES - N_GIVEN], by[N_GIVEN];"
        yield "} Model;"
        for name, run in runs.items():
            yield from self._runner(name, run.plan)
        yield "static void bind(Model *m)"
        yield "{"
        yield from (f"  bind_{name}(m);" for name in runs)
        yield "}"

    def _words(self, plan: Plan) -> int:
        return run_code.PORTS + 3 * len(plan.ports) + 2 * len(plan.natives)

    def _runner(self, name: str, plan: Plan) -> Iterator[str]:
        """Functions that fill the job of a run, and run it."""
        addresses: dict[int, str] = {
            run_code.WORK: f"m->{name}_work",
            run_code.STATUS: "&m->status",
            run_code.FAILED_AT: "&m->failed_at",
        }
        for i, port in enumerate(plan.ports):
            addresses[run_code.PORTS + 3 * i] = self.model.room_of(port)
        programs = run_code.PORTS + 3 * len(plan.ports)
        for i in range(len(plan.natives)):
            addresses[programs + 2 * i + 1] = "m->scratch"
        yield f"static void bind_{name}(Model *m)"
        yield "{"
        yield f"  uint64_t *job = m->{name}_job;"
        yield f"  job[{run_code.COUNT}] = job[{run_code.EVERY}] = job[{run_code.DIRECTION}] = 1;"
        yield from (f"  job[{i}] = (uintptr_t){x};" for i, x in addresses.items())
        yield "}"
        yield f"static int run_{name}(Model *m, double h, int64_t first, int64_t steps, int record)"
        yield "{"
        yield f"  uint64_t *job = m->{name}_job;"
        yield "  union { double x; uint64_t i; } length;"
        yield "  length.x = h;"
        yield f"  job[{run_code.STEPS}] = (uint64_t)steps;"
        yield f"  job[{run_code.FIRST}] = (uint64_t)first;"
        yield f"  job[{run_code.RECORDS}] = (uint64_t)record;"
        yield f"  job[{run_code.STEP_LENGTH}] = length.i;"
        yield "  m->status = 0;"
        yield f"  {name}_run((char *)job, 0, 0, 0);"
        yield "  return (int)(m->status & 7);"
        yield "}"
