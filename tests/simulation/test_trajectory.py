"""Trajectories: what they hold, resampling on the manifold, files, figures."""

import csv
import io
import json
import os
import warnings
import zipfile

import numpy as np
import pytest
from known_mechanisms import pendulum, slider
from random_models import model_from_parents

import phipsi as pp
from phipsi.simulation.trajectory import storage

TIGHT = {"rtol": 1e-12, "atol": 1e-14}


def tree():
    return model_from_parents(
        [-1, 0, 1, 1], 8, ["free", "spherical", "revolute", "planar"], frames=True, damping=True
    )


def motion(**options):
    model, rng = tree(), np.random.default_rng(0)
    q0, v0 = model.random_configuration(rng), rng.uniform(-1, 1, model.nv)
    return pp.simulate(model, q0, v0, 0.8, **options)


# ---- contents -----------------------------------------------------------------------------------


def test_contents():
    run = motion()
    k, model = len(run), run.model
    assert run.t.shape == (k,) and run.q.shape == (k, model.nq) and run.v.shape == (k, model.nv)
    assert run.tau.shape == (k, model.nv) and not run.tau.any()
    assert run.constraint_residuals.shape == (k, 0)
    assert run.momentum.shape == (k, 6) and run.energy.shape == (k,)
    assert run.t[0] == 0 and run.t[-1] == 0.8 and (np.diff(run.t) > 0).all()
    for i in (0, k // 2):
        q, v = run.q[i], run.v[i]
        energy = pp.kinetic_energy(model, q, v) + pp.potential_energy(model, q)
        assert run.energy[i] == pytest.approx(energy, rel=1e-13)
        np.testing.assert_allclose(run.momentum[i], pp.momentum(model, q, v), rtol=1e-12)
    with pytest.raises(ValueError, match="read-only"):
        run.q[0, 0] = 1


# ---- between the samples ------------------------------------------------------------------------


def test_dense_output_has_the_accuracy_of_the_run():
    run = motion(**TIGHT)
    times = np.sort(np.random.default_rng(1).uniform(0, 0.8, 200))
    assert run.interpolation == "dense output"
    fine = run.resample(times)
    assert np.ptp(fine.energy) < 1e-9 * np.abs(fine.energy).max()
    exact = motion(output_times=times, rtol=1e-13, atol=1e-15)
    gap = run.model.difference(exact.q, fine.q)
    assert np.abs(gap).max() < 1e-9
    q, v = run.at(times[7])
    np.testing.assert_array_equal(q, fine.q[7])
    np.testing.assert_array_equal(v, fine.v[7])


def test_samples_are_reproduced():
    for run in (motion(), motion(integrator="rk4", dt=0.02)):
        again = run.resample(run.t)
        np.testing.assert_allclose(again.v, run.v, atol=1e-12)
        np.testing.assert_allclose(again.q, run.q, atol=1e-13)


def test_hermite_between_samples_has_order_four():
    times = np.sort(np.random.default_rng(2).uniform(0, 0.8, 600))
    exact = motion(output_times=times, **TIGHT)
    errors = []
    for count in (41, 81):
        run = motion(output_times=np.linspace(0, 0.8, count), **TIGHT)
        assert run.interpolation == "cubic Hermite"
        again = run.resample(times)
        q_error = np.abs(run.model.difference(exact.q, again.q)).max()
        errors.append((q_error, np.abs(again.v - exact.v).max()))
    (q_coarse, v_coarse), (q_fine, v_fine) = errors
    assert np.log2(q_coarse / q_fine) == pytest.approx(4, abs=0.4)
    assert np.log2(v_coarse / v_fine) == pytest.approx(3, abs=0.4)
    for s in exact.model.q_slices[:2]:
        lengths = np.linalg.norm(again.q[:, s.start : s.start + 4], axis=1)
        np.testing.assert_allclose(lengths, 1, atol=1e-14)


def test_hermite_does_not_smear_a_jump():
    bounce = pp.Event(lambda t, q, v: q[0], -1, lambda t, q, v: (q, -v))
    run = pp.simulate(
        slider(gravity=9.81), [1.0], [0.0], 0.8, events=bounce, integrator="rk4", dt=0.1
    )
    at = run.events[0].t
    times = [at - 1e-6, at, at + 1e-6]
    speed = np.sqrt(2 * 9.81)
    np.testing.assert_allclose(run.resample(times).v[:, 0], [-speed, speed, speed], atol=2e-5)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([0.9], "outside the trajectory"),
        ([-0.1], "outside"),
        ([[0.1]], "list"),
        ([np.nan], "finite"),
    ],
)
def test_times_outside_are_refused(times, message):
    with pytest.raises(pp.errors.InputError, match=message):
        motion().resample(times)


# ---- files --------------------------------------------------------------------------------------


def recorded():
    """Everything a file has to keep: events, efforts, forces, dense output."""
    model = tree()
    event = pp.Event(lambda t, q, v: t - 0.3, action=lambda t, q, v: (q, 0.9 * v), name="brake ✓")
    run = pp.simulate(
        model,
        model.random_configuration(3),
        np.ones(model.nv),
        0.8,
        controller=lambda t, q, v: -0.1 * v,
        forces=[pp.forces.JointSpring(None, 2.0)],
        events=event,
    )
    assert len(run.events) == 1
    return run


@pytest.mark.parametrize("make", [recorded, lambda: motion(integrator="rk4", dt=0.01)])
def test_save_and_load(make, tmp_path):
    run = make()
    run.save(tmp_path / "run.npz")
    assert os.listdir(tmp_path) == ["run.npz"]
    again = pp.Trajectory.load(tmp_path / "run.npz")
    assert again.model == run.model
    for name in ("t", "q", "v", "tau", "energy", "momentum", "constraint_residuals"):
        np.testing.assert_array_equal(getattr(again, name), getattr(run, name), err_msg=name)
    assert (again.complete, again.integrator) == (run.complete, run.integrator)
    assert again.interpolation == run.interpolation
    assert repr(again) == repr(run)
    for a, b in zip(again.events, run.events, strict=True):
        assert (a.name, a.t) == (b.name, b.t)
        for name in ("q", "v", "q_after", "v_after"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    times = np.linspace(0, 0.8, 33)
    np.testing.assert_array_equal(again.resample(times).q, run.resample(times).q)
    again.save(tmp_path / "again.npz")
    first, second = (tmp_path / "run.npz").read_bytes(), (tmp_path / "again.npz").read_bytes()
    assert len(first) == len(second)


def test_numpy_alone_reads_the_file(tmp_path):
    run = recorded()
    run.save(tmp_path / "run.npz")
    with np.load(tmp_path / "run.npz", allow_pickle=False) as file:
        np.testing.assert_array_equal(file["q"], run.q)
        header = json.loads(file["header"].tobytes())
    assert header["format"] == "phipsi-trajectory" and header["events"] == ["brake ✓"]
    assert pp.Model.from_dict(header["model"]) == run.model


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    run = motion(integrator="rk4", dt=0.1)
    run.save(tmp_path / "run.npz")
    before = (tmp_path / "run.npz").read_bytes()

    def fail(file, **arrays):
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(storage.np, "savez", fail)
    with pytest.raises(OSError, match="disk full"):
        run.save(tmp_path / "run.npz")
    assert (tmp_path / "run.npz").read_bytes() == before
    assert os.listdir(tmp_path) == ["run.npz"]


def test_csv(tmp_path):
    run = recorded()
    run.to_csv(tmp_path / "run.csv")
    with open(tmp_path / "run.csv", newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    assert head[:5] == ["t", "q:j0.qw", "q:j0.qx", "q:j0.qy", "q:j0.qz"]
    assert head[-1] == "energy" and "q:j2" in head and "v:j1.2" in head and "tau:j2" in head
    table = np.array(rows, dtype=float)
    np.testing.assert_array_equal(table[:, 0], run.t)
    np.testing.assert_array_equal(table[:, 1 : 1 + run.model.nq], run.q)
    np.testing.assert_array_equal(table[:, -1], run.energy)


# ---- hostile files ------------------------------------------------------------------------------


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def write(path, contents, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in contents.items():
            archive.writestr(name, data)


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


def lying(shape):
    """A float64 array whose header claims a shape its data does not have."""
    data = npy(np.zeros(3))
    old = b"(3,), }"
    assert old in data
    new = f"{shape}, }}".encode()
    pad = data.index(b"\n") - data.index(old)
    return data.replace(data[data.index(old) : data.index(b"\n")], new.ljust(pad))


def header(change):
    def edit(contents):
        data = json.loads(np.load(io.BytesIO(contents["header.npy"])).tobytes())
        change(data)
        text = json.dumps(data).encode()
        contents["header.npy"] = npy(np.frombuffer(text, dtype=np.uint8))

    return edit


def put(name, data):
    return lambda contents: contents.update({f"{name}.npy": data})


ATTACKS = {
    "pickle": (put("q", npy(np.array([{"a": 1}], dtype=object))), "Object|type object"),
    "missing": (lambda c: c.pop("v.npy"), "has no array 'v'"),
    "wrong type": (put("t", npy(np.zeros(5, dtype=np.float32))), "float32"),
    "wrong shape": (put("t", npy(np.zeros(77))), "does not fit"),
    "matrix of times": (put("t", npy(np.zeros((5, 1)))), "does not fit"),
    "times run back": (lambda c: c.update({"t.npy": npy(np.flip(_t(c)))}), "do not increase"),
    "claims terabytes": (put("t", lying("(1000000000000,)")), "does not match its 24 bytes"),
    "claims overflow": (put("t", lying("(4611686018427387905, 4)")), "does not match its 24 bytes"),
    "no npy": (put("t", b"hello"), "not a trajectory file"),
    "header is text": (put("header", npy(np.frombuffer(b"hello", dtype=np.uint8))), "JSONDecode"),
    "header is a list": (put("header", npy(np.frombuffer(b"[1]", dtype=np.uint8))), "format"),
    "header nests": (
        put("header", npy(np.frombuffer(b"[" * 200_000, dtype=np.uint8))),
        "RecursionError|no trajectory",
    ),
    "other format": (header(lambda h: h.update(format="phipsi-model")), "is not \"phipsi-traj"),
    "other version": (header(lambda h: h.update(version=2)), "version 2"),
    "no model": (header(lambda h: h.pop("model")), "not a phipsi model"),
    "other model": (header(lambda h: h.update(model=pendulum().to_dict())), "does not fit"),
    "evil joint": (header(lambda h: _first_body(h).update(joint={"type": "system"})), "'system'"),
    "model of numbers": (header(lambda h: h["model"].update(gravity=3, bodies=7)), "7"),
    "model of nan": (header(lambda h: _first_body(h)["inertia"].update(mass=None)), "mass"),
    "events no list": (header(lambda h: h.update(events=3)), "list of names"),
    "events too many": (header(lambda h: h.update(events=["x"] * 3)), "does not fit"),
    "complete is text": (header(lambda h: h.update(complete="yes")), "complete"),
    "dense nodes": (put("dense_values", npy(np.zeros((3, 99, 2)))), "dense_values"),
    "dense order": (lambda c: c.update({"dense_t0.npy": npy(np.flip(_t(c)[:-1]))}), "follow each"),
}  # fmt: skip


def _first_body(header):
    return header["model"]["bodies"][0]


def _t(contents):
    return np.load(io.BytesIO(contents["t.npy"]))


@pytest.mark.parametrize("attack", ATTACKS)
def test_hostile_files_are_refused(attack, tmp_path):
    change, message = ATTACKS[attack]
    motion(rtol=1e-5).save(tmp_path / "run.npz")
    contents = members(tmp_path / "run.npz")
    change(contents)
    write(tmp_path / "bad.npz", contents)
    with pytest.raises(pp.errors.ParseError, match=message):
        pp.Trajectory.load(tmp_path / "bad.npz")


def test_bombs_are_refused(tmp_path):
    motion(rtol=1e-5).save(tmp_path / "run.npz")
    contents = members(tmp_path / "run.npz")
    contents["t.npy"] = npy(np.zeros(10_000_000))
    write(tmp_path / "bomb.npz", contents, zipfile.ZIP_DEFLATED)
    assert (tmp_path / "bomb.npz").stat().st_size < 1_000_000
    with pytest.raises(pp.errors.ParseError, match="more than 200 times"):
        pp.Trajectory.load(tmp_path / "bomb.npz")
    with pytest.raises(pp.errors.ParseError, match="max_bytes"):
        pp.Trajectory.load(tmp_path / "run.npz", max_bytes=100)


def test_files_that_are_no_archives(tmp_path):
    (tmp_path / "a.npz").write_bytes(b"")
    (tmp_path / "b.npz").write_bytes(b"PK\x03\x04 and nothing else")
    for name in ("a.npz", "b.npz"):
        with pytest.raises(pp.errors.ParseError, match=f"{name} is not a trajectory file"):
            pp.Trajectory.load(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        pp.Trajectory.load(tmp_path / "c.npz")


def test_damaged_files_give_one_kind_of_error(tmp_path):
    """Random bytes changed: the trajectory or a ParseError, nothing else."""
    motion(rtol=1e-4).save(tmp_path / "run.npz")
    whole = bytearray((tmp_path / "run.npz").read_bytes())
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(150):
        data = bytearray(whole)
        for place in rng.integers(len(data), size=3):
            data[place] = rng.integers(256)
        if rng.random() < 0.2:
            data = data[: rng.integers(len(data))]
        (tmp_path / "bad.npz").write_bytes(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                pp.Trajectory.load(tmp_path / "bad.npz")
            except pp.errors.ParseError:
                refused += 1
    assert refused > 100


# ---- figures ------------------------------------------------------------------------------------


def test_plot(monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    run = recorded()
    figure = run.plot()
    assert len(figure.axes) == 4  # q, v, tau, energy
    assert sum(len(axis.lines) for axis in figure.axes[:1]) == run.model.nq + len(run.events)
    figure.canvas.draw()
    one = pp.simulate(pendulum(), [0.0], [0.0], 0.1).plot("bob")
    assert len(one.axes) == 3 and one.axes[0].get_legend() is not None
    plt.close("all")
    with pytest.raises(pp.errors.InputError, match="no joint 'elbow'"):
        run.plot("elbow")


def test_plot_without_matplotlib_says_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r'pip install "phipsi\[plot\]"'):
        motion(rtol=1e-4).plot()
