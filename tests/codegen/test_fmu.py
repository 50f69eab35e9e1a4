"""FMUs are valid, and other tools get the numbers of the library from them (FMPy)."""

from __future__ import annotations

import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from known_systems import four_bar

import phipsi as pp
from phipsi.codegen import fmu
from phipsi.core.model.entry_names import joint_units
from phipsi.errors import InputError, PhipsiWarning
from phipsi.simulation.integrators.group_calls import UNIT, VELOCITY, GroupCall

fmpy = pytest.importorskip("fmpy")
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
EVERY = 10


@pp.law
def hold(q: Any, v: Any, kp: Any, kd: Any, target: Any) -> Any:
    return {"tau": kp * (target - q) - kd * v, "gap": target - q}


GAINS: dict[str, Any] = {"kp": [60.0, 30.0], "kd": 8.0, "target": [0.5, 0.3]}


def arm() -> pp.Simulator:
    """Laws with parameters, a continuous state, and an element."""
    laws = [
        hold.bind(**GAINS),
        pp.laws.pid("joint1", 0.2, kp=4.0, ki=10.0, limit=20.0),
        pp.forces.JointDamper(None, 0.2),
    ]
    return pp.Simulator(pp.examples.planar_arm(2), laws, dt=1e-3)


def sampled_arm() -> pp.Simulator:
    return pp.Simulator(pp.examples.planar_arm(2), [hold.bind(**GAINS).sampled(100.0)], dt=1e-3)


def flyer() -> pp.Simulator:
    """A quaternion."""
    b = pp.ModelBuilder(gravity=(0, 0, -9.81))
    inertia = pp.SpatialInertia(1.0, (0.1, 0, 0), [0.1, 0.2, 0.3])
    b.add_body("top", joint=pp.joints.Spherical(), inertia=inertia)
    return pp.Simulator(b.build(), dt=1e-3)


def loop() -> pp.Simulator:
    return pp.Simulator(four_bar(), dt=1e-3)


STARTS: dict[str, tuple[Any, Any, Any]] = {
    "arm": (arm, np.array([0.1, -0.2]), np.array([0.3, 0.0])),
    "sampled": (sampled_arm, np.array([0.1, -0.2]), np.array([0.3, 0.0])),
    "flyer": (flyer, None, np.array([1.0, 2.0, -0.5])),
    "loop": (loop, np.array([1.0, -1.0, -1.5]), None),
}
RECORDS = {
    "arm": ("q", "v", "vdot", "hold.gap", "tau"),
    "sampled": ("q", "v", "hold.gap", "tau"),  # held values
}


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    """A compiler that does not optimise gives the same bits."""
    with patch.object(fmu, "_FLAGS", [x for x in fmu._FLAGS if x != "-O2"]):
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Simulators with their FMUs and starts."""
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    folder, out = tmp_path_factory.mktemp("fmus"), {}
    for name, (make, q, v) in STARTS.items():
        sim = make()
        if name == "loop":
            q = sim.compiled.mechanism.assemble(q)
        outputs = RECORDS.get(name, ("q", "v"))
        path = pp.export_fmu(sim, folder / f"{name}.fmu", q=q, v=v, outputs=outputs)
        out[name] = sim, path, sim.initial_state(q, v)
    return out


def run(path: Path, kind: str, seconds: float, names: Sequence[str], **options: Any) -> np.ndarray:
    options = {"output_interval": 1e-3 * EVERY, **options}
    found: Any = fmpy.simulate_fmu(
        str(path), fmi_type=kind, stop_time=seconds, output=list(names), **options
    )
    return np.array([[row[n] for n in names] for row in found])


def outputs_of(path: Path) -> list[str]:
    description = fmpy.read_model_description(str(path))
    return [x.name for x in description.modelVariables if x.causality == "output"]


@pytest.mark.parametrize("name", STARTS)
def test_fmpy_finds_nothing_wrong(name: str, made: Any):
    from fmpy.validation import validate_fmu

    assert validate_fmu(str(made[name][1])) == []


@pytest.mark.parametrize("name", STARTS)
def test_co_simulation_takes_the_steps_of_the_simulator(name: str, made: Any):
    sim, path, start = made[name]
    names, records = outputs_of(path), RECORDS.get(name, ("q", "v"))
    found = run(path, "CoSimulation", 0.3, names, step_size=1e-3)
    want = sim.rollout(start, steps=300, record_every=EVERY, record=records)
    expected = np.concatenate([want[x].reshape(len(want.q), -1) for x in records], axis=1)
    assert found.shape == expected.shape
    size = np.maximum(1.0, np.abs(expected).max(axis=0))
    np.testing.assert_allclose(found / size, expected / size, rtol=0, atol=1e-12)
    assert np.ptp(found, axis=0).max() > 0.1  # it moves


@pytest.mark.parametrize("name", STARTS)
def test_model_exchange_with_a_solver(name: str, made: Any):
    """The same motion as small steps take; sampled laws are events, and loops stay closed."""
    sim, path, start = made[name]
    nq = sim.model.nq
    found = run(path, "ModelExchange", 0.3, outputs_of(path)[:nq], relative_tolerance=1e-9)
    fine = sim.rollout(start, steps=300, record_every=300).q[-1]  # rk4: 1e-9
    np.testing.assert_allclose(found[-1], fine, rtol=0, atol=2e-6)
    if name == "flyer":
        np.testing.assert_allclose((found**2).sum(axis=1), 1.0, atol=1e-6)
    if name == "loop":
        assert np.abs(sim.compiled.mechanism.residual(found[-1])).max() < 1e-7


def test_model_exchange_agrees_with_simulate(made: Any):
    sim, path, start = made["flyer"]
    found = run(path, "ModelExchange", 0.3, outputs_of(path)[:4], relative_tolerance=1e-10)
    want = pp.simulate(sim.model, start.q, start.v, 0.3, rtol=1e-11, atol=1e-12).q[-1]
    np.testing.assert_allclose(found[-1] * np.sign(found[-1] @ want), want, atol=1e-6)


@pytest.mark.parametrize("name", STARTS)
def test_partial_derivatives(name: str, made: Any):
    """Directional against differences, by states, inputs and parameters; adjoint against both."""
    from fmpy.fmi3 import FMU3Model

    path = made[name][1]
    description, folder = fmpy.read_model_description(str(path)), fmpy.extract(str(path))
    one = FMU3Model(
        guid=description.guid, unzipDirectory=folder, instanceName="one", modelIdentifier=name
    )
    one.instantiate()
    one.enterInitializationMode()
    one.exitInitializationMode()
    one.updateDiscreteStates()
    one.enterContinuousTimeMode()
    listed = description.modelVariables
    unknowns = [x.valueReference for x in listed if x.derivative or x.causality == "output"]
    knowns = {x.valueReference for x in listed if x.causality in ("input", "parameter")}
    knowns = sorted(knowns | {x.derivative.valueReference for x in listed if x.derivative})
    rng = np.random.default_rng(0)
    seed, weights = rng.standard_normal(len(knowns)), rng.standard_normal(len(unknowns))
    found = np.array(one.getDirectionalDerivative(unknowns, knowns, list(seed)))
    back = one.getAdjointDerivative(unknowns, knowns, list(weights), len(knowns))
    start = np.array(one.getFloat64(knowns))
    ends = []
    for side in (1e-6, -1e-6):
        one.setFloat64(knowns, list(start + side * seed))
        ends.append(np.array(one.getFloat64(unknowns)))
    one.terminate()
    one.freeInstance()
    shutil.rmtree(folder)
    want = (ends[0] - ends[1]) / 2e-6
    np.testing.assert_allclose(found, want, rtol=1e-6, atol=1e-6)
    assert abs(np.dot(back, seed) - weights @ found) < 1e-9 * (1 + np.abs(found).sum())
    assert np.abs(found).max() > 0.1


@needs_gcc
def test_fmi_2(made: Any, tmp_path: Path):
    from fmpy.validation import validate_fmu

    sim, new, start = made["arm"]
    old = pp.export_fmu(sim, tmp_path / "arm.fmu", fmi="2.0", q=start.q, v=start.v)
    assert validate_fmu(str(old)) == []
    names = outputs_of(old)
    for kind in ("CoSimulation", "ModelExchange"):
        options = {"step_size": 1e-3} if kind == "CoSimulation" else {}
        found, other = (run(x, kind, 0.1, names, **options) for x in (old, new))
        assert np.array_equal(found, other)


def test_inputs_and_parameters_act(made: Any):
    sim, path, start = made["arm"]
    names = outputs_of(path)[:2]
    push = np.array([(0.0, 2.0), (1.0, 2.0)], dtype=[("time", float), ("tau.joint2", float)])
    options: Any = {"start_values": {"hold.kd": 3.0}, "input": push, "step_size": 1e-3}
    found = run(path, "CoSimulation", 0.1, names, **options)
    state = sim.initial_state(start.q, start.v, parameters={"hold.kd": 3.0})
    place = sim.model.v_slice("joint2").start
    want = sim.rollout(state, 2.0 * np.eye(2)[place], steps=100, record_every=EVERY)
    np.testing.assert_allclose(found, want.q, rtol=0, atol=1e-12)
    plain = run(path, "CoSimulation", 0.1, names, step_size=1e-3)
    assert np.abs(plain - found).max() > 1e-3


def test_other_communication_steps(made: Any):
    """They are split into equal steps; sampled laws need multiples of the step."""
    sim, path, start = made["arm"]
    uneven: Any = {"step_size": 0.0045, "output_interval": 0.0045}
    found = run(path, "CoSimulation", 0.09, ["q.joint1"], **uneven)
    want = sim.rollout(start, steps=90, record_every=90).q[-1, 0]
    assert abs(found[-1, 0] - want) < 1e-9
    sampled = made["sampled"][1]
    with pytest.raises(Exception, match="fmi3DoStep"):
        run(sampled, "CoSimulation", 0.09, ["q.joint1"], **uneven)


@pytest.fixture
def slaves(made: Any) -> Any:
    """Instances of the sampled model, with their outputs' value references."""
    from fmpy.fmi3 import FMU3Slave

    path = made["sampled"][1]
    description, folder = fmpy.read_model_description(str(path)), fmpy.extract(str(path))
    known: list[Any] = []

    def instance(token: str = description.guid) -> Any:
        one = FMU3Slave(
            guid=token, unzipDirectory=folder, instanceName="one", modelIdentifier="sampled"
        )
        one.instantiate()
        one.enterInitializationMode()
        one.exitInitializationMode()
        known.append(one)
        return one

    yield instance, [x.valueReference for x in description.modelVariables if x.start is not None]
    for one in known:
        one.freeInstance()
    shutil.rmtree(folder)


def go(one: Any, first: float, references: Any, steps: int = 25) -> list[float]:
    for k in range(steps):
        one.doStep(first + 1e-3 * k, 1e-3)
    return list(one.getFloat64(references))


def test_states_are_saved_and_restored(slaves: Any):
    """A run that goes on from a saved state has the same bits; so has one after a reset."""
    instance, references = slaves
    one = instance()
    first = go(one, 0.0, references)
    saved = one.getFMUState()
    content = one.serializeFMUState(saved)
    ends = [go(one, 0.025, references)]
    one.setFMUState(saved)
    ends.append(go(one, 0.025, references))
    one.setFMUState(one.deserializeFMUState(content))
    ends.append(go(one, 0.025, references))
    assert ends[0] == ends[1] == ends[2] != first
    one.reset()
    one.enterInitializationMode()
    one.exitInitializationMode()
    assert go(one, 0.0, references) == first


def test_instances_do_not_know_each_other(slaves: Any):
    instance, references = slaves
    one, other = instance(), instance()
    first = go(one, 0.0, references)
    assert list(other.getFloat64(references)) != first
    assert go(other, 0.0, references) == first


def test_calls_that_make_no_sense_fail(slaves: Any):
    """An error, not a crash: other tokens, references that there are not, steps of no length."""
    instance, references = slaves
    with pytest.raises(Exception, match="nstantiate"):
        instance("0" * 64)
    one = instance()
    for call in (
        lambda: one.getFloat64([10**6]),
        lambda: one.setFloat64([0], [1.0]),
        lambda: one.setFloat64([10**6], [1.0]),
        lambda: one.getFloat32([1]),
        lambda: one.doStep(0.0, 0.0),
        lambda: one.doStep(0.0, float("nan")),
        lambda: one.doStep(0.0, 1e300),
        lambda: one.doStep(float("nan"), 1e-3),
        lambda: one.doStep(float("inf"), 1e-3),
    ):
        with pytest.raises(Exception, match="fmi3"):
            call()
    one.setFloat64([references[0]], [float("nan")])
    with pytest.raises(Exception, match="fmi3DoStep"):
        one.doStep(0.0, 1e-3)


CALLS = """#include "sampled.c"
static void heard(void *e, const char *n, int status, const char *c, const char *text, ...)
{ (void)e; (void)n; (void)c; (void)text; if (status != ERROR) exit(7); }
int main(void)
{
  static const double bad[] = { 0.0 / 0.0, 1.0 / 0.0, -1.0 / 0.0 };
  Callbacks callbacks = { heard, 0, 0, 0, 0 };
  EventInfo info;
  int i, event, terminate;
  Instance *s = fmi2Instantiate("one", 1, TOKEN, "", &callbacks, 0, 0);
  void *state = 0;
  unsigned char bytes[sizeof(Saved)];
  printf("lengths");
  for (i = 0; i < 3; i++) printf(" %d", fmi2DoStep(s, 0.0, bad[i], 0));
  printf(" %d %d", fmi2DoStep(s, 0.0, 1e300, 0), fmi2DoStep(s, 0.0, -1e300, 0));
  printf(" %d\\n", fmi2DoStep(s, 0.0, 1e14, 0));
  printf("times");
  for (i = 0; i < 3; i++)
    printf(" %d %d %d", fmi2DoStep(s, bad[i], 1e-3, 0), fmi2SetTime(s, bad[i]),
           fmi2SetupExperiment(s, 0, 0, bad[i], 0, 0));
  printf("\\ngood %d", fmi2DoStep(s, 0.0, 2e-3, 0));
  printf(" %g\\n", s->model.values[0]);
  fmi2Reset(s);
  fmi2SetupExperiment(s, 0, 0, 5.0, 0, 0);
  printf("samples %d", fmi2NewDiscreteStates(s, &info));
  printf(" %g", info.next);
  fmi2SetTime(s, 5.01);
  printf(" %d", fmi2NewDiscreteStates(s, &info));
  printf(" %g", info.next);
  for (i = 0; i < 3; i++) {
    fmi2SetTime(s, i ? 1e300 : 5.05);
    printf(" %d", fmi2NewDiscreteStates(s, &info));
  }
  fmi2SetTime(s, 5.02);
  printf(" %d", fmi2NewDiscreteStates(s, &info));
  printf(" %g\\n", info.next);
  fmi2GetFMUstate(s, &state);
  fmi2SerializeFMUstate(s, state, bytes, sizeof bytes);
  printf("states %d", fmi2DeSerializeFMUstate(s, bytes, sizeof bytes, &state));
  memcpy(bytes, bad, sizeof *bad); /* the time */
  printf(" %d\\n", fmi2DeSerializeFMUstate(s, bytes, sizeof bytes, &state));
  fmi2FreeFMUstate(s, &state);
  fmi2CompletedIntegratorStep(s, 0, &event, &terminate);
  fmi2FreeInstance(s);
  return 0;
}
"""


@needs_gcc
def test_numbers_that_no_integer_holds_are_rejected_before_they_are_converted(tmp_path: Path):
    """NaN and 1e300 as communication step, time and start; a jump over samples is an error."""
    options: Any = {"fmi": "2.0", "binary": False, "derivatives": False}
    path = pp.export_fmu(sampled_arm(), tmp_path / "sampled.fmu", **options)
    (tmp_path / "sampled.c").write_bytes(zipfile.ZipFile(path).read("sources/sampled.c"))
    (tmp_path / "calls.c").write_text(CALLS)
    flags = "-std=c99 -fsanitize=float-cast-overflow,signed-integer-overflow"
    flags += " -fsanitize-undefined-trap-on-error"
    words = f"gcc {flags} -Wno-div-by-zero calls.c -o calls -lm && timeout 20 ./calls"
    done = subprocess.run(words, shell=True, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr[:2000])
    lengths, times, good, samples, states = done.stdout.splitlines()
    assert lengths == "lengths 3 3 3 3 3 3"
    assert times == "times" + " 3" * 9
    assert good == "good 0 0.002"
    assert samples == "samples 0 5.01 0 5.02 3 3 3 0 5.03"
    assert states == "states 0 3"


def test_equal_models_are_equal_files(tmp_path: Path):
    files = [pp.export_fmu(arm(), tmp_path / f"{k}/arm.fmu", binary=False) if not
             (tmp_path / str(k)).mkdir() else None for k in "ab"]  # fmt: skip
    first, second = (Path(str(x)).read_bytes() for x in files)
    assert first == second
    other = pp.export_fmu(arm(), tmp_path / "arm.fmu", q=[0.1, 0.0], binary=False)
    tokens = [_description(x).split('instantiationToken="')[1][:64] for x in (files[0], other)]
    assert tokens[0] != tokens[1]


def _description(path: Any) -> str:
    return zipfile.ZipFile(path).read("modelDescription.xml").decode()


@needs_gcc
def test_the_source_compiles_without_warnings(made: Any, tmp_path: Path):
    """Also with a prefix, as tools that link several FMUs ask for; nothing is called but C's."""
    path = made["loop"][1]
    (tmp_path / "loop.c").write_bytes(zipfile.ZipFile(path).read("sources/loop.c"))
    flags = "-std=c99 -Wall -Wextra -Werror -pedantic -DFMI3_FUNCTION_PREFIX=loop_ -c loop.c"
    done = subprocess.run(f"gcc {flags}", shell=True, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:2000]
    listed = subprocess.run("nm loop.o", shell=True, cwd=tmp_path, capture_output=True, text=True)
    wanted = set(re.findall(r" U (\w+)", listed.stdout))
    allowed = {"calloc", "malloc", "free", "memcpy", "memset", "strcmp", "sprintf", "sqrt"}
    assert wanted <= allowed | {"_GLOBAL_OFFSET_TABLE_", "__stack_chk_fail"}
    assert not re.findall(r" [BbDd] (\w+)", listed.stdout.replace("status_texts", ""))
    assert " T loop_fmi3DoStep" in listed.stdout


@needs_gcc
def test_contacts_are_for_co_simulation_only(tmp_path: Path):
    """A ball falls on the ground, slides and begins to roll."""
    b = pp.ModelBuilder(gravity=(0, 0, -9.81))
    b.add_body("ball", joint=pp.joints.Free(), inertia=pp.SpatialInertia(1.0, (0, 0, 0), 0.004))
    b.add_shape("skin", "ball", pp.shapes.Sphere(0.1))
    model = b.build()
    system = pp.System(model, contacts=pp.Contacts(model, ground=True))
    sim = pp.Simulator(system, dt=1e-3, integrator="time_stepping")
    q, v = [1.0, 0, 0, 0, 0, 0, 0.11], [0.0, 0, 0, 1.0, 0, 0]
    with pytest.raises(InputError, match="does not support model exchange: contact impulses"):
        pp.export_fmu(sim, tmp_path / "ball.fmu", q=q, kind="model_exchange")
    with pytest.warns(PhipsiWarning, match="co-simulation only: contact impulses"):
        path = pp.export_fmu(sim, tmp_path / "ball.fmu", q=q, v=v)
    assert "<ModelExchange" not in _description(path)
    found = run(path, "CoSimulation", 0.2, outputs_of(path), step_size=1e-3)
    want = sim.rollout(sim.initial_state(q, v), steps=200, record_every=EVERY)
    np.testing.assert_allclose(found, np.hstack([want.q, want.v]), rtol=0, atol=1e-9)
    assert abs(want.v[-1, 1]) > 1  # it rolls


def test_mistakes_are_named(tmp_path: Path):
    sim, file = arm(), tmp_path / "arm.fmu"
    cases: list[tuple[dict[str, Any], str]] = [
        ({"fmi": "1.0"}, "fmi='1.0' is not one of '3.0', '2.0'"),
        ({"kind": "cosimulation"}, "Did you mean 'co_simulation'"),
        ({"outputs": ("q", "hold.gab")}, "'hold.gab' is not among"),
        ({"inputs": ("joint3",)}, "there is no joint 'joint3'"),
        ({"parameters": ("hold.kq",)}, "'hold.kq' is not among"),
        ({"q": [0.0]}, "q"),
        ({"q": np.zeros((2, 2))}, "starts from one state"),
    ]
    for options, text in cases:
        with pytest.raises(InputError, match=text):
            pp.export_fmu(sim, file, **options)
    with pytest.raises(InputError, match=r"not a C identifier. Write  my_arm.fmu"):
        pp.export_fmu(sim, tmp_path / "my arm.fmu")
    with pytest.raises(InputError, match=r"ends with .fmu"):
        pp.export_fmu(sim, tmp_path / "arm.zip")
    with pytest.raises(InputError, match="nowhere. Make it first:  mkdir -p "):
        pp.export_fmu(sim, tmp_path / "nowhere" / "arm.fmu", binary=False)
    assert not list(tmp_path.glob("*.fmu"))


def test_odd_names_are_described(tmp_path: Path):
    """XML has no control characters, and variables have names of their own."""
    b = pp.ModelBuilder()
    inertia = pp.SpatialInertia(1.0, (0.1, 0, 0), 0.1)
    for name in ('a<"&>', "b\x01\n", "time"):
        joint = pp.joints.Revolute((0, 0, 1))
        b.add_body(f"body {name!r}", joint=joint, inertia=inertia, joint_name=name)
    path = pp.export_fmu(b.build(), tmp_path / "odd.fmu", binary=False)
    names = [x.name for x in fmpy.read_model_description(str(path)).modelVariables]
    assert len(names) == len(set(names))
    assert 'q.a<"&>' in names and "q.b??" in names


def test_only_what_is_named_is_described(tmp_path: Path):
    path = pp.export_fmu(
        arm(), tmp_path / "arm.fmu", binary=False, inputs=["joint2"], outputs=("q",),
        parameters=["hold.kd"], kind="co_simulation",
    )  # fmt: skip
    named = re.findall(r'Float64 name="([^"]+)"[^>]*causality="(\w+)"', _description(path))
    kinds = {kind: [n for n, k in named if k == kind] for _, kind in named}
    assert kinds["input"] == ["tau.joint2"]
    assert kinds["parameter"] == ["hold.kd"]
    assert kinds["output"] == ["q.joint1", "q.joint2"]
    assert not [n for n, _ in named if n.startswith("der(")]


@needs_gcc
@pytest.mark.parametrize("fmi", ["3.0", "2.0"])
def test_an_output_of_a_sampled_law_has_its_own_name(fmi: str, tmp_path: Path):
    """What is asked for as "hold.gap" is an output "hold.gap", with the numbers of rollout."""
    sim, start = sampled_arm(), STARTS["sampled"][1]
    outputs = ("q", "hold.gap", "hold.tau", "tau")
    path = pp.export_fmu(sim, tmp_path / "sampled.fmu", q=start, outputs=outputs, fmi=fmi)
    names = outputs_of(path)
    own = ["q.joint1", "q.joint2", "hold.gap[1]", "hold.gap[2]", "hold.tau[1]", "hold.tau[2]"]
    assert names == [*own, "total.tau.joint1", "total.tau.joint2"]
    found = run(path, "CoSimulation", 0.05, names[2:4], step_size=1e-3)
    want = sim.rollout(sim.initial_state(start), steps=50, record_every=EVERY, record=("hold.gap",))
    np.testing.assert_allclose(found, want["hold.gap"], rtol=0, atol=1e-12)
    held = re.findall(r'name="(hold.gap.held[^"]*)"[^>]* causality="(\w+)"', _description(path))
    assert held == [("hold.gap.held[1]", "local"), ("hold.gap.held[2]", "local")]


def test_variables_and_the_model_say_what_they_are(tmp_path: Path):
    path = pp.export_fmu(sampled_arm(), tmp_path / "two.fmu", outputs=("hold.gap",), binary=False)
    description = fmpy.read_model_description(str(path))
    texts = {x.name: x.description for x in description.modelVariables}
    assert all(texts.values())
    assert texts["q.joint1"] == "generalized coordinate of joint joint1"
    assert texts["tau.joint1"] == (
        "torque or force on joint joint1, in addition to laws and force elements"
    )
    assert texts["hold.kd"] == "parameter kd of hold"
    assert texts["hold.gap[1]"] == "output gap of hold, sampled every 0.01 s"
    assert texts["hold.gap.held[1]"] == (
        "value of hold.gap that is held from the last sample or step"
    )
    assert "2 bodies with 2 generalized velocities; laws and force elements: hold; rk4 with" in (
        description.description
    )


def test_units_of_every_joint_type():
    b = pp.ModelBuilder()
    inertia = pp.SpatialInertia(1.0, (0, 0, 0), 0.1)
    for name in ("Revolute", "Prismatic", "Cylindrical", "Planar", "Free"):
        axis = () if name in ("Planar", "Free") else ((0, 0, 1),)
        b.add_body(name, joint=getattr(pp.joints, name)(*axis), inertia=inertia)
    units = joint_units(b.build())
    assert units["q"] == ["rad", "m", "rad", "m", "rad", "m", "m", *["1"] * 4, "m", "m", "m"]
    assert units["tau"][:4] == ["N.m", "N", "N.m", "N"]
    assert units["tau"][-6:] == ["N.m"] * 3 + ["N"] * 3


def test_rates_of_configurations():
    """q̇ = N(q) v as the graph has it, against the model's own; any length becomes 1."""
    model = pp.examples.free_flyer()
    rng = np.random.default_rng(0)
    q, v = model.random_configuration(rng), rng.standard_normal(model.nv)
    found = GroupCall(VELOCITY, model).arrays(q, v)[0]
    np.testing.assert_allclose(found, model.qdot(q, v), atol=1e-15)
    long = q.copy()
    long[:4] *= 1.7
    np.testing.assert_allclose(GroupCall(UNIT, model).arrays(long)[0], q, atol=1e-15)


def test_limits_that_are_none_are_valid_numbers_and_rigid_stops_keep_their_stiffness(
    tmp_path: Path,
):
    """XML writes INF; what no run can change is not offered as a parameter."""
    from fmpy.validation import validate_fmu

    arm, soft = pp.examples.planar_arm(1), pp.forces.JointLimit(None, 1e3, upper=1.0)
    pp.export_fmu(pp.Simulator(arm, [soft]), tmp_path / "soft.fmu", binary=False)
    text = _description(tmp_path / "soft.fmu")
    assert re.search(r'name="joint_limit.lower\[1\]"[^>]* start="-INF"', text)
    assert not validate_fmu(str(tmp_path / "soft.fmu"))
    rigid = pp.forces.JointLimit(None, np.inf, upper=1.0)
    sim = pp.Simulator(arm, [rigid], integrator="time_stepping")
    pp.export_fmu(sim, tmp_path / "rigid.fmu", binary=False)
    shown = re.findall(r"joint_limit\.\w+", _description(tmp_path / "rigid.fmu"))
    assert set(shown) == {"joint_limit.upper"}
    assert sim.compiled.fixed_entries("joint_limit.stiffness").all()
