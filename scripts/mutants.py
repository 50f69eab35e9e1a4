"""Deliberate faults in rules, operations and kernels: does a test turn red for each?

    make mutants                                  the recorded run
    python scripts/mutants.py --count 40          a sample
    python scripts/mutants.py --only 17,203       some of them again, with the test that fails

Every mutant changes one place of one file: a sign, an operation, a comparison, a constant, the
order of two arguments, a transposition. The tests of its group run in a process of its own, in
which only that module is changed, until one fails; without a fault they must all pass. A mutant
that survives is either listed as equivalent in `scripts/equivalent_mutants.toml`, with the reason,
or shows a test that is missing.

The table of results is written to docs/mutants.md; --log keeps them while the run goes on, and a
run that was stopped goes on from there. Groups that the log knows nothing of keep their rows, with
the commit that they were run at.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib.abc
import importlib.machinery
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "phipsi"
EQUIVALENT = ROOT / "scripts" / "equivalent_mutants.toml"
REPORT = ROOT / "docs" / "mutants.md"


@dataclass(frozen=True)
class Group:
    """Files that are changed, how many mutants are drawn, and the tests that must notice."""

    name: str
    files: tuple[str, ...]
    count: int
    tests: tuple[str, ...]


# The sharpest first: most faults end the run within seconds.
_SYMBOLIC = (
    "tests/core/sweeps/test_golden.py",
    "tests/core/rewrite/test_rewrite.py",
    "tests/core/sweeps/test_schedule.py",
    "tests/core/sweeps/test_operations.py",
    "tests/core/expressions/test_expressions.py",
    "tests/core/expressions/test_spaces.py",
    "tests/core/sweeps/test_costs.py",
)
_EXPRESSIONS = (*_SYMBOLIC, "tests/core/test_random_expressions.py")
_DERIVATIVES = (
    "tests/core/calculus/test_block_gradients.py",
    "tests/core/calculus/test_derivatives.py",
    "tests/core/calculus/test_families.py",
    "tests/core/calculus/test_row_derivatives.py",
    "tests/native/test_native_derivatives.py",
)
_CLOSED = (
    "tests/core/constraints/test_rows.py",
    "tests/algorithms/constrained/test_closed_forms.py",
    "tests/algorithms/constrained/test_row_order.py",
    "tests/papers/test_exact_rows.py",
    "tests/algorithms/constrained/test_row_rank.py",
    "tests/algorithms/constrained/test_dynamics.py",
)
_NATIVE = (
    "tests/core/sweeps/test_legality.py",
    "tests/native/test_native_gram.py",
    "tests/native/test_native_direct.py",
    "tests/native/test_native_failures.py",
    "tests/native/test_native_rematerialisation.py",
    "tests/native/test_native_sincos.py",
    "tests/native/test_native_elementary.py",
    "tests/native/test_native_expressions.py",
    "tests/native/test_small_hinges.py",
    "tests/core/backends/test_given.py",
    "tests/native/test_native_bits.py",
)
_CONTACT = ("tests/attached/test_shapes_of_models.py", *(f"tests/contact/test_{x}.py" for x in (
    "cones", "pair_formulas", "row_products", "impacts", "overlap",
    "never_silent", "cone_adjoint", "rebounds_on_light_bodies", "ropes", "fixed_steps",
    "cone_code", "convex_pairs", "joint_rows", "contact_events", "contact_runs", "joint_events",
    "event_runs", "contacts_and_loops", "gradients_at_rest", "material_gradients",
    "soft_polygons")))  # fmt: skip
_FLEXIBLE = (*(f"tests/flexible/test_{name}.py" for name in (
    "beams", "flexible_inertia", "flexible_models", "flexible_oracle", "flexible_rates",
    "vibration", "what_flexible_bodies_reject", "modal_blocks", "flexible_identities",
    "finite_elements", "beam_benchmarks", "flexible_trees", "flexible_calculus",
    "flexible_parameters", "welded_loads", "flexible_loops", "flexible_motion",
    "flexible_native", "shared_rows", "flexible_derivatives", "flexible_control",
    "flexible_contacts", "stiff_loops", "loop_vibrations")),
    "tests/core/sweeps/test_costs.py::test_no_form_became_dearer[flexible]")  # fmt: skip
_FORCES = (
    "tests/laws/test_elements.py",
    "tests/laws/test_elastic_couplings.py",
    "tests/laws/test_energy_of_runs.py",
    "tests/laws/test_derivatives_of_elements.py",
    "tests/simulation/test_frame_forces.py",
    "tests/simulation/test_limits_of_parameters.py",
    "tests/laws/test_loads_as_inputs.py",
    "tests/laws/test_gradients_of_elements.py",
    "tests/simulation/test_linearize_laws.py",
    "tests/simulation/test_implicit_damping.py",
    "tests/simulation/test_forces.py",
    "tests/simulation/test_equilibrium.py",
    "tests/contact/test_joint_rows.py",
    "tests/contact/test_joint_events.py",
    *(f"tests/simulation/test_control_loops.py::test_{name}" for name in (
        "stops_of_a_loop_are_as_stiff_as_what_the_loop_makes_them_move",
        "a_part_without_loops_has_the_stops_of_the_tree", "loops_that_never_close_have_no_stops")),
)  # fmt: skip
_STEPS = (
    "tests/algorithms/test_chart.py",
    *(f"tests/simulation/test_{name}.py" for name in (
        "iteration", "conservation", "events", "quadratures", "gradients",
        "matrix_gradients")),
    "tests/contact/test_impacts.py",
    "tests/flexible/test_stiff_loops.py",
    *(f"tests/simulation/test_{name}.py" for name in (
        "implicit_steps", "integrators", "rollout", "failures", "run_gradients",
        "gradients_of_records", "closed_gradients", "implicit_damping", "own_numbers_of_runs",
        "compiled_equations", "simulator")),
)  # fmt: skip

GROUPS = (
    Group("rules", ("core/rewrite/identities.py", "core/operators/catalogue.py"), 60,
          ("tests/core/rewrite/test_rules.py", *_EXPRESSIONS, "tests/papers/test_identities.py",
           "tests/docs/test_docs.py::test_the_catalogue_is_complete",
           "tests/transmissions/test_skew_rotors.py", *_DERIVATIVES)),
    Group("rewriting", ("core/rewrite/rewriter.py", "core/rewrite/causal.py",
                        "core/rewrite/inverses.py",
                        "core/rewrite/collect.py", "core/rewrite/matrix_splitting.py",
                        "core/rewrite/patterns.py"), 40,
          ("tests/core/rewrite/test_rules.py", *_EXPRESSIONS, "tests/core/test_modes.py",
           "tests/core/test_compile.py", "tests/core/sweeps/test_explain.py", *_DERIVATIVES)),
    Group("lowering", ("core/sweeps/memoryless_blocks.py", "core/sweeps/lower.py",
                       "core/sweeps/equation_builder.py", "core/sweeps/matrix_results.py",
                       "core/sweeps/schedule.py"), 50,
          (*_EXPRESSIONS, "tests/core/test_modes.py", *_CLOSED, *_DERIVATIVES)),
    Group("derivatives", ("core/calculus/directional.py", "core/calculus/tangent.py",
                          "core/calculus/gradient.py", "core/calculus/change.py"), 30,
          ("tests/core/sweeps/test_golden.py", "tests/core/sweeps/test_costs.py", *_DERIVATIVES,
           "tests/docs/test_derivative_table.py", "tests/algorithms/test_sensitivities.py")),
    Group("operations", ("core/sweeps/operations.py", "core/sweeps/closure_operations.py",
                         "core/sweeps/kernels.py", "core/sweeps/entries.py",
                         "core/backends/reference.py", "core/backends/arrays.py",
                         "core/model/closures.py", "core/model/closure_rows.py"), 50,
          ("tests/core/sweeps/test_golden.py", "tests/core/constraints/test_rows.py",
           "tests/native/test_native_derivatives.py", "tests/native/test_native_direct.py",
           *_EXPRESSIONS, *_CLOSED, "tests/core/backends/test_reference.py", *_DERIVATIVES,
           *_NATIVE)),
    Group("joints", ("core/model/joints.py", "core/spatial/exponential_coefficients.py",
                     "core/spatial/joint_groups.py", "core/spatial/rotation_groups.py",
                     "core/spatial/quaternions.py", "core/spatial/vectors.py"), 30,
          ("tests/core/model/test_joints.py", "tests/core/model/test_equivalent_joints.py",
           "tests/algorithms/test_chart.py", "tests/core/dense/test_dense.py",
           "tests/core/model/test_model.py", "tests/simulation/test_integrators.py",
           "tests/simulation/test_gradients.py", "tests/kinematics/test_inverse_kinematics.py")),
    Group("kernels", (*(f"native/{name}.py" for name in (
              "tables", "kernel/body_code", "kernel/kernel_inputs", "kernel/lane_blocks",
              "kernel/phases", "kernel/emit_context", "matrices/columns",
              "matrices/gram", "matrices/tiles", "matrices/paths", "matrices/products",
              "matrices/row_matrix", "matrices/loop_row_order", "matrices/structural_zeros",
              "text/sine_and_logarithm")),), 80,
          (*_NATIVE[:4], "tests/core/constraints/test_rows.py",
           "tests/native/test_native_derivatives.py", *_NATIVE[4:], *_CLOSED,
           "tests/algorithms/constrained/test_system_batches.py",
           "tests/native/test_native_zeros.py",
           "tests/algorithms/test_peers_pinocchio.py")),
    Group("contact", (*(f"contact/{name}.py" for name in (
              "solver/newton", "solver/interior_point", "solver/scaled_problem",
              "solver/solver_schedule", "solver/contact_problem",
               "solver/contact_solver_derivatives",
              "contact_rows", "certificate", "solver/delassus",
              "geometry/explicit_pairs", "geometry/box_pairs", "geometry/polygon_pairs",
              "geometry/convex_search")),
          "simulation/impacts/contact_steps.py",
          "simulation/impacts/single_contact_step.py", "simulation/impacts/displacement.py",
          "simulation/modes/contact_events.py",
          "simulation/modes/contact_modes.py",
          "simulation/modes/contact_phase.py"), 25, _CONTACT),
    Group("flexible", (*(f"flexible/{name}.py" for name in (
              "beams", "finite_elements", "invariants", "fe_modes")),
          *(f"core/model/{name}.py" for name in (
              "deflections", "flexible_hinge", "flexible_inertia", "flexible_ports")),
          "core/sweeps/modal_bodies.py", "core/sweeps/modal_operations.py",
          "core/operators/modal_definitions.py", "flexible/vibration.py"), 24, _FLEXIBLE),
    Group("forces", (*(f"simulation/forces/{name}.py" for name in (
              "body_forces", "elastic_couplings", "force", "frame_forces", "joint_forces",
              "joint_limits", "on_rates")),), 24, _FORCES),
    Group("steps", ("algorithms/kinematics/exponential_chart.py",
          "simulation/runs/gradients.py", "simulation/runs/run_gradient.py",
          "simulation/analysis/step_derivatives.py",
          *(f"simulation/integrators/{name}.py" for name in (
              "fixed_point", "graph_steps", "implicit_steps", "lagrangian", "stage_loop",
              "step_graph", "stiff_modes", "tableaux")),
          *(f"simulation/simulate/{name}.py" for name in (
              "adaptive_steps", "events", "fixed_steps", "quadratures"))), 24, _STEPS),
)  # fmt: skip

# ---- what is changed -----------------------------------------------------------------------------

_OTHER: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


# Calls whose first two arguments may be exchanged, or whose exchange is an error at once.
_UNORDERED = ("plus", "max", "min", "maximum", "minimum", "isinstance", "getattr", "zip")


def _changed(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Every fault that one node can have, as its kind and the node to put there."""
    new: Any = copy.deepcopy(node)
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _OTHER:
        if not isinstance(getattr(node, "right", None), ast.Constant | ast.JoinedStr) or (
            not isinstance(getattr(node.right, "value", 0), str)  # type: ignore[union-attr]
        ):
            new.op = _OTHER[type(node.op)]()
            yield "operation", new
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        new.op = ast.Add()
        yield "operation", new
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        new.left, new.right = new.right, new.left
        yield "order", new
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
        yield "sign" if isinstance(node.op, ast.USub) else "negation", new.operand
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in _OTHER:
        new.ops[0] = _OTHER[type(node.ops[0])]()
        yield "comparison", new
    elif isinstance(node, ast.BoolOp):
        new.op = _OTHER[type(node.op)]()
        yield "logic", new
    elif (
        isinstance(node, ast.Constant)
        and isinstance(node.value, int | float)
        and not isinstance(node.value, bool)
    ):
        small = isinstance(node.value, float)
        new.value = (node.value * (1 + 1e-6) or 1e-6) if small else node.value + 1
        yield "constant", new
    elif isinstance(node, ast.Attribute) and node.attr == "T" and isinstance(node.ctx, ast.Load):
        yield "adjoint", new.value
    elif isinstance(node, ast.Call) and len(node.args) >= 2:
        first, second = node.args[:2]
        plain = not any(isinstance(a, ast.Starred) for a in (first, second))
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        called = node.func.id if isinstance(node.func, ast.Name) else called
        if plain and called not in _UNORDERED and ast.dump(first) != ast.dump(second):
            new.args[0], new.args[1] = new.args[1], new.args[0]
            yield "arguments", new


class _Places(ast.NodeVisitor):
    """The nodes of a module that compute something: no messages, types, names or printing."""

    def __init__(self) -> None:
        self.nodes: list[ast.AST] = []

    def generic_visit(self, node: ast.AST) -> None:
        self.nodes.append(node)
        super().generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        """Messages."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """They say what a reader may rely on, and are off with -O."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Text."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_arg(self, node: ast.arg) -> None:
        """Names and types of arguments."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name not in ("__repr__", "__str__") and "text" not in node.name:
            for child in [*node.args.defaults, *node.body]:
                self.visit(child)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not (isinstance(node.value, ast.Name) and node.value.id[:1].isupper()):
            self.generic_visit(node)


@dataclass(frozen=True)
class Mutant:
    """One fault: the `number`-th of its group's file."""

    group: str
    file: str
    number: int
    line: int
    kind: str
    before: str
    after: str

    @property
    def name(self) -> str:
        """What it is called in lists: place and change."""
        return f"{self.file}:{self.line} {self.kind}: {self.before} → {self.after}"


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 60 else text[:57] + "…"


def faults_of(group: str, file: str) -> Iterator[tuple[Mutant, ast.AST, ast.AST]]:
    """All faults of a file, in the order of the text."""
    places = _Places()
    places.visit(ast.parse((SOURCE / file).read_text()))
    number = 0
    for node in places.nodes:
        for kind, new in _changed(node):
            line = getattr(node, "lineno", 0)
            yield Mutant(group, file, number, line, kind, _short(node), _short(new)), node, new
            number += 1


def mutated_tree(mutant: Mutant) -> ast.Module:
    """The module with the fault in it."""
    tree = ast.parse((SOURCE / mutant.file).read_text())
    places = _Places()
    places.visit(tree)
    number = 0
    for node in places.nodes:
        for _, new in _changed(node):
            if number == mutant.number:
                return ast.fix_missing_locations(_Replace(node, new).visit(tree))
            number += 1
    raise LookupError(mutant.name)


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> Any:
        if node is self.old:
            return ast.copy_location(self.new, node)
        return self.generic_visit(node)


def drawn(count: int | None, seed: int) -> list[Mutant]:
    """The mutants of a run: so many of each group, spread over its files."""
    out: list[Mutant] = []
    whole = sum(group.count for group in GROUPS)
    for group in GROUPS:
        rng = random.Random(f"{seed} {group.name}")
        faults = [m for file in group.files for m, _, _ in faults_of(group.name, file)]
        wanted = group.count if count is None else max(1, round(count * group.count / whole))
        out += sorted(rng.sample(faults, min(wanted, len(faults))), key=lambda m: (m.file, m.line))
    return out


# ---- running the tests ---------------------------------------------------------------------------


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads one module with a fault in it."""

    def __init__(self, name: str, path: str, tree: ast.Module) -> None:
        super().__init__(name, path)
        self.tree = tree

    def get_code(self, fullname: str) -> Any:
        return compile(self.tree, self.path, "exec")


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        parts = mutant.file.removesuffix(".py").split("/")
        self.name = ".".join(["phipsi", *parts])
        self.loader = _Loader(self.name, str(SOURCE / mutant.file), mutated_tree(mutant))

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname != self.name:
            return None
        return importlib.machinery.ModuleSpec(fullname, self.loader, origin=self.loader.path)


class _FirstFailure:
    """The pytest plugin that remembers the first test that is red."""

    name = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.name:
            self.name = report.nodeid

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed and not self.name:
            self.name = report.nodeid or "collection"


def _child(mutant: Mutant | None, tests: tuple[str, ...], write: int) -> None:
    """In a process of its own: run the tests with the fault in place."""
    import pytest

    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    first = _FirstFailure()
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--timeout=0"]
    try:
        if mutant is not None:
            sys.meta_path.insert(0, _Finder(mutant))
        code = int(pytest.main([*options, *tests], plugins=[first]))
    except BaseException as error:
        code, first.name = -1, f"{type(error).__name__}: {error}"
    os.write(write, json.dumps({"code": code, "test": first.name}).encode())
    os._exit(0)


def _processor_seconds(process: int) -> float:
    """What a process has used: a busy machine must not look like a test without an end."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(mutant: Mutant | None, tests: tuple[str, ...], seconds: float) -> dict[str, Any]:
    """Outcome of one mutant: "killed" with the test, "survived" or "too long"."""
    start = time.monotonic()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        _child(mutant, tests, write)
    os.close(write)
    out: dict[str, Any] = {"outcome": "too long", "test": f"no end within {seconds:g} s"}
    while _processor_seconds(child) < seconds and time.monotonic() - start < 10 * seconds:
        done, _ = os.waitpid(child, os.WNOHANG)
        if done:
            answer = json.loads(os.read(read, 1 << 20) or b'{"code": 1, "test": "process died"}')
            # passed, failed, broken at import, broken where the tests' own modules import it
            known = (0, 1, 2) if mutant is None else (0, 1, 2, 4)
            if answer["code"] not in known:
                raise RuntimeError(f"pytest did not run ({answer}): {mutant}")
            outcome = "survived" if answer["code"] == 0 else "killed"
            out = {"outcome": outcome, "test": answer["test"] or "session"}
            break
        time.sleep(0.05)
    else:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
    os.close(read)
    return {**out, "seconds": round(time.monotonic() - start, 1)}


def warm_up() -> None:
    """Load what every child needs, but nothing of phipsi."""
    for name in ("numpy", "scipy", "llvmlite.binding", "pytest", "sympy", "mpmath"):
        __import__(name)


# ---- the report ----------------------------------------------------------------------------------


def equivalents() -> dict[str, str]:
    """Names of mutants that change no result, with the reason."""
    if not EQUIVALENT.exists():
        return {}
    with EQUIVALENT.open("rb") as file:
        return {row["mutant"]: row["reason"] for row in tomllib.load(file).get("equivalent", [])}


def _commit() -> str:
    """The commit whose files are changed."""
    asked = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


_ROW = re.compile(r"\| (?P<group>[\w-]+) \| (?P<numbers>[\d |]+) \| (?P<commit>[\w, ]+) \|")
_ITEM = re.compile(r"- (?P<group>[\w-]+): `")


@dataclass
class Outcome:
    """A group's faults, how many were noticed, equivalent and not noticed; at which commits."""

    counts: list[int]
    commits: str
    same: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)


def recorded(page: str) -> dict[str, Outcome]:
    """The outcomes that a page holds, by group."""
    out: dict[str, Outcome] = {}
    title = ""
    for line in page.splitlines():
        title = line if line.startswith("## ") else title
        if row := _ROW.fullmatch(line):
            counts = [int(n) for n in row["numbers"].split("|")]
            out[row["group"]] = Outcome(counts, row["commit"])
        elif item := _ITEM.match(line):
            one = out[item["group"]]
            (one.same if title == "## Equivalent" else one.missed).append(line)
    return out


def outcomes(mutants: list[Mutant], results: dict[str, dict[str, Any]]) -> dict[str, Outcome]:
    """The outcomes of this run, of groups of which it has results."""
    known = equivalents()
    out: dict[str, Outcome] = {}
    for mutant in (m for m in mutants if m.name in results):
        row = results[mutant.name]
        one = out.setdefault(mutant.group, Outcome([0, 0, 0, 0], ""))
        commits = [*filter(None, one.commits.split(", "))]
        one.commits = ", ".join(dict.fromkeys([*commits, row["commit"]]))
        one.counts[0] += 1
        if row["outcome"] != "survived":
            one.counts[1] += 1
        elif mutant.name in known:
            one.counts[2] += 1
            one.same.append(f"- {mutant.group}: `{mutant.name}`: {known[mutant.name]}")
        else:
            one.counts[3] += 1
            one.missed.append(f"- {mutant.group}: `{mutant.name}`")
    return out


def report(found: dict[str, Outcome]) -> str:
    """The page docs/mutants.md."""
    groups = [found[group.name] for group in GROUPS if group.name in found]
    lines = [
        "# Mutation tests",
        "",
        "Evidence that the tests notice faults (**mutation testing**): one deliberate fault at a",
        "time is put into the code, and a test must fail. `make mutants` repeats the run;",
        "`scripts/mutants.py` says what is changed and which tests run. Files and lines are those",
        "of the commit in the last column.",
        "",
        "| group | faults | noticed | equivalent | not noticed | commit |",
        "|---|---|---|---|---|---|",
    ]
    for group in (group.name for group in GROUPS if group.name in found):
        counts = " | ".join(map(str, found[group].counts))
        lines.append(f"| {group} | {counts} | {found[group].commits} |")
    totals = [sum(column) for column in zip(*(one.counts for one in groups), strict=True)]
    lines.append("| **all** | " + " | ".join(map(str, totals)) + " | |")
    if any(one.same for one in groups):
        lines += ["", "## Equivalent", "", "These change no result:", ""]
        lines += [line for one in groups for line in one.same]
    if any(one.missed for one in groups):
        lines += ["", "## Not noticed", ""]
        lines += [line for one in groups for line in one.missed]
    return "\n".join([*lines, ""])


def main() -> int:
    """Draw, run, report; the exit code says whether a mutant was not noticed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--count", type=int, help="how many in all (default: the recorded run)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=400.0, help="processor time of one mutant")
    parser.add_argument("--log", type=Path, default=ROOT / "build" / "mutants.jsonl")
    parser.add_argument("--only", help="numbers of mutants to run again, with commas")
    parser.add_argument("--group", help="only this group")
    parser.add_argument("--no-control", action="store_true", help="skip the runs without a fault")
    parser.add_argument("--write", action="store_true", help="write docs/mutants.md")
    options = parser.parse_args()
    os.chdir(ROOT)
    sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests" / "support")]
    os.environ.setdefault("PHIPSI_FUZZ", "120")
    os.environ.setdefault("PHIPSI_FUZZ_NATIVE", "60")
    # compiled without optimisation: a fault of ours is there at any level, and found sooner
    os.environ.setdefault("PHIPSI_BACKEND_TESTS_EFFORT", "0")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    options.log.parent.mkdir(parents=True, exist_ok=True)
    mutants = drawn(options.count, options.seed)
    if options.group:
        mutants = [m for m in mutants if m.group == options.group]
    results: dict[str, dict[str, Any]] = {}
    if options.log.exists():
        for line in options.log.read_text().splitlines():
            row = json.loads(line)
            results[row["name"]] = row
    again = {int(n) for n in options.only.split(",")} if options.only else set()
    tests = {group.name: group.tests for group in GROUPS}
    commit = _commit()
    warm_up()
    for group in () if again or options.no_control else GROUPS:
        if group.name in {m.group for m in mutants if m.name not in results}:
            control = run(None, group.tests, 10 * options.seconds)
            print(
                f"     {control['outcome']:9s} {control['seconds']:6.1f} s  {group.name}, no fault"
            )
            if control["outcome"] != "survived":
                raise RuntimeError(f"the tests fail without a fault: {control['test']}")
    with options.log.open("a") as log:
        for number, mutant in enumerate(mutants):
            if again and number not in again or (not again and mutant.name in results):
                continue
            row = {
                "name": mutant.name,
                **asdict(mutant),
                "commit": commit,
                **run(mutant, tests[mutant.group], options.seconds),
            }
            results[mutant.name] = row
            log.write(json.dumps(row) + "\n")
            log.flush()
            print(
                f"{number:4d} {row['outcome']:9s} {row['seconds']:6.1f} s  {mutant.name}   "
                f"[{row['test']}]",
                flush=True,
            )
    if options.write:
        REPORT.write_text(report(recorded(REPORT.read_text()) | outcomes(mutants, results)))
    known = equivalents()
    missed = [
        m.name for m in mutants
        if results.get(m.name, {}).get("outcome") == "survived" and m.name not in known
    ]  # fmt: skip
    noticed = sum(r["outcome"] != "survived" for r in results.values())
    print(f"{len(results)} mutants, {noticed} noticed, {len(missed)} not noticed")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
