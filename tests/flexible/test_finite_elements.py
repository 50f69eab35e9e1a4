"""Bodies from matrices and meshes: modes, statics and invariants by dense linear algebra."""

import os
import pathlib
import zipfile
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
from flexible_oracle import Points, cross_matrix

import phipsi as pp
from phipsi.errors import FileError, ModelError
from phipsi.flexible.fe_modes import SparseCholesky


def lattice(nx, ny=3, nz=3, seed=0):
    """Nodes of a grid with unequal masses, joined by springs to all neighbours: M, K, nodes."""
    rng = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(*map(np.arange, (nx, ny, nz)), indexing="ij"), -1)
    nodes = grid.reshape(-1, 3) * 0.1 + rng.uniform(-0.01, 0.01, (nx * ny * nz, 3))
    nodes[:, 0] -= nodes[:, 0].min()
    masses = rng.uniform(0.5, 1.5, len(nodes))
    near = np.linalg.norm(nodes[:, None] - nodes, axis=-1) < 0.2
    rows, columns, values = [], [], []
    for i, j in np.argwhere(np.triu(near, 1)):
        e = nodes[j] - nodes[i]
        k = rng.uniform(1e3, 2e3) * np.outer(e, e) / (e @ e)
        for a, b, sign in ((i, i, 1), (j, j, 1), (i, j, -1), (j, i, -1)):
            for x in range(3):
                rows += 3 * [3 * a + x]
                columns += [3 * b, 3 * b + 1, 3 * b + 2]
                values += (sign * k[x]).tolist()
    size = 3 * len(nodes)
    K = scipy.sparse.csr_array((values, (rows, columns)), shape=(size, size))
    return scipy.sparse.diags_array(np.repeat(masses, 3)), K, nodes


M, K, NODES = lattice(6)
ROOT, TIP = np.arange(9), np.arange(45, 54)
EVERY = np.arange(54).reshape(-1, 3)  # "triangles" that name all nodes, to see the shapes


def body(**options):
    given: dict[str, Any] = {"root": ROOT, "ports": {"tip": TIP}, "modes": 4, "triangles": EVERY}
    return pp.FlexibleInertia.from_matrices(M, K, NODES, **given | options)


def rigid_columns(nodes, about):
    return np.vstack([np.hstack([np.eye(3), -cross_matrix(r - about)]) for r in nodes])


def clamped():
    free = np.arange(27, 162)
    return free, M.toarray()[np.ix_(free, free)], K.toarray()[np.ix_(free, free)]


@pytest.mark.parametrize("tie", ["rigid", "mean"])
def test_loads_at_the_port_are_exact_in_statics(tie):
    found = body(tie=tie, modes=0)
    port, at = found.port("tip"), NODES[TIP].mean(axis=0)
    reads = np.vstack([port.translation_modes, port.rotation_modes])
    _, _, Kc = clamped()
    rigid = rigid_columns(NODES[TIP], at)
    if tie == "mean":
        E = np.zeros((135, 6))
        E[108:] = np.linalg.pinv(rigid).T
        expected = E.T @ np.linalg.solve(Kc, E)
    else:
        T = np.zeros((135, 114))
        T[:108, :108], T[108:, 108:] = np.eye(108), rigid
        expected = np.linalg.inv(T.T @ Kc @ T)[108:, 108:]
    np.testing.assert_allclose(port.position, at)
    np.testing.assert_allclose(reads @ np.linalg.solve(found.stiffness, reads.T), expected,
                               atol=1e-9 * np.abs(expected).max())  # fmt: skip
    assert found.modes == 6


def test_enough_modes_give_the_frequencies_of_the_clamped_body():
    _, Mc, Kc = clamped()
    exact = np.sqrt(scipy.linalg.eigh(Kc, Mc, eigvals_only=True))
    found = body(basis="clamped", tie="mean", modes=20)
    np.testing.assert_allclose(found.frequencies, exact[:20], rtol=1e-8)
    every = body(tie="mean", modes=129)  # 135 unknowns, six of them of the port
    np.testing.assert_allclose(every.frequencies, exact, rtol=1e-6)
    few = body(tie="mean", modes=8).frequencies[:4] / exact[:4] - 1
    assert (few > -1e-9).all() and few[0] < 1e-3 and few.max() < 2e-2


def test_the_picture_joins_nodes_with_stiffness_between_them(monkeypatch):
    shape = body(triangles=()).shape
    coupled = abs(K.toarray()).reshape(54, 3, 54, 3).max(axis=(1, 3)) > 0
    assert {tuple(x) for x in shape.segments.tolist()} == {
        (i, j) for i in range(54) for j in range(i + 1, 54) if coupled[i, j]
    }
    np.testing.assert_allclose(shape.nodes, NODES)
    monkeypatch.setattr("phipsi.flexible.fe_modes._MOST_SEGMENTS", 50)
    points = body(triangles=()).shape
    assert len(points.nodes) and not len(points.segments)  # too many to see


def test_normal_modes_hold_the_port():
    """With the port fixed, what is left are the fixed-interface modes of the matrices."""
    found = body(modes=5)
    reads = np.vstack([found.port("tip").translation_modes, found.port("tip").rotation_modes])
    still = scipy.linalg.null_space(reads)
    squares = np.linalg.eigvalsh(still.T @ found.stiffness @ still)
    _, Mc, Kc = clamped()
    exact = scipy.linalg.eigh(Kc[:108, :108], Mc[:108, :108], eigvals_only=True)
    np.testing.assert_allclose(squares, exact[:5], rtol=1e-8)


def test_invariants_are_those_of_the_nodes():
    found = body()
    assert found.shape is not None
    n, masses = found.modes, M.diagonal()[::3]
    points = Points(masses, NODES, found.shape.modes, np.zeros((54, 3, n, n)),
                    np.zeros((54, 3, 3)), np.zeros((54, 3, n)))  # fmt: skip
    eta = np.random.default_rng(1).uniform(-0.3, 0.3, n)
    np.testing.assert_allclose(found.inertia_at(eta), points.inertia(eta), atol=1e-11)
    np.testing.assert_allclose(found.modal_mass, np.eye(n), atol=1e-10)
    assert not found.shape.modes[ROOT].any()


def test_lanczos_equals_dense_eigenvalues():
    many = lattice(30)
    options: dict[str, Any] = {"root": np.arange(9), "ports": {"tip": np.arange(261, 270)}}
    options |= {"tie": "mean", "modes": 10, "damping_ratio": 0.01}
    free = np.arange(27, 810)
    Mc, Kc = (x.toarray()[np.ix_(free, free)] for x in many[:2])
    exact = np.sqrt(scipy.linalg.eigh(Kc, Mc, eigvals_only=True, subset_by_index=(0, 9)))
    found = pp.FlexibleInertia.from_matrices(*many, **options, basis="clamped")
    np.testing.assert_allclose(found.frequencies, exact, rtol=1e-8)
    assert pp.FlexibleInertia.from_matrices(*many, **options, basis="clamped") == found
    np.testing.assert_allclose(np.diagonal(found.damping), 0.02 * found.frequencies, rtol=1e-9)
    held = pp.FlexibleInertia.from_matrices(*many, **options)
    np.testing.assert_allclose(held.frequencies[:6], exact[:6], rtol=2e-3)
    assert held.modes == 16 and (held.frequencies[:6] > exact[:6]).all()


def test_shapes_of_another_program():
    """Free modes, which move the root, are changed to modes that leave it at rest."""
    squares, shapes = scipy.linalg.eigh(K.toarray(), M.toarray())
    free = shapes[:, 6:26].reshape(54, 3, -1)
    found = body(modes=free)
    points = M.diagonal()[::3]
    root = np.linalg.pinv(rigid_columns(NODES[ROOT], np.zeros(3)))
    moved = shapes[:, 6:26] - rigid_columns(NODES, np.zeros(3)) @ root @ shapes[:27, 6:26]
    exact = scipy.linalg.eigh(
        np.diag(squares[6:26]), moved.T @ (np.repeat(points, 3)[:, None] * moved)
    )[0]
    np.testing.assert_allclose(found.frequencies**2, exact, rtol=1e-7)
    assert found.modes == 20
    best = scipy.linalg.eigh(*clamped()[:0:-1], eigvals_only=True)[0]
    assert 1 < found.frequencies[0] ** 2 / best < 1.2


def frame_elements(L, m, EI, EA, GJ, rotary, count):
    """A straight beam along x of 3D beam elements, 6 degrees of freedom per node, free."""
    h = L / count
    k, mass = np.zeros((12, 12)), np.zeros((12, 12))
    s, w = np.polynomial.legendre.leggauss(4)
    s, w = (s + 1) / 2, w * h / 2
    N = np.stack([1 - 3 * s**2 + 2 * s**3, h * (s - 2 * s**2 + s**3), 3 * s**2 - 2 * s**3,
                  h * (s**3 - s**2)])  # fmt: skip
    N1 = np.stack([6 * s**2 - 6 * s, h * (1 - 4 * s + 3 * s**2), 6 * s - 6 * s**2,
                   h * (3 * s**2 - 2 * s)]) / h  # fmt: skip
    N2 = np.stack([12 * s - 6, h * (6 * s - 4), 6 - 12 * s, h * (6 * s - 2)]) / h**2
    line = np.stack([1 - s, s])
    slope = np.array([[-1.0], [1.0]]) / h * np.ones(4)
    for rows, shapes, rates, stiff, inertia in (
        ([0, 6], line, slope, EA, m), ([3, 9], line, slope, GJ, 2 * rotary),
    ):  # fmt: skip
        k[np.ix_(rows, rows)] += stiff * (rates * w) @ rates.T
        mass[np.ix_(rows, rows)] += inertia * (shapes * w) @ shapes.T
    for rows, signs in (([1, 5, 7, 11], [1, 1, 1, 1]), ([2, 4, 8, 10], [1, -1, 1, -1])):
        S = np.diag(signs)
        k[np.ix_(rows, rows)] += S @ (EI * (N2 * w) @ N2.T) @ S
        mass[np.ix_(rows, rows)] += S @ (m * (N * w) @ N.T + rotary * (N1 * w) @ N1.T) @ S
    size = 6 * (count + 1)
    big = np.zeros((2, size, size))
    for e in range(count):
        here = slice(6 * e, 6 * e + 12)
        big[0][here, here] += mass
        big[1][here, here] += k
    nodes = np.zeros((count + 1, 3))
    nodes[:, 0] = np.linspace(0, L, count + 1)
    return big[0], big[1], nodes


def test_nodes_with_rotations_make_the_same_beam():
    arguments = 2.0, 3.0, 5.0, 11.0, 13.0
    matrices = frame_elements(*arguments, 0.01, 20)
    found = pp.FlexibleInertia.from_matrices(*matrices, root=[0], ports={"tip": [20]}, modes=4)
    beam = pp.FlexibleInertia.beam(*arguments, modes=4, stiffening=False, rotary_inertia=0.01)
    np.testing.assert_allclose(found.frequencies[:2], beam.frequencies[:2], rtol=1e-3)
    np.testing.assert_allclose(found.rigid.matrix, beam.rigid.matrix, rtol=1e-9, atol=1e-9)
    softness = []
    for x in (found, beam):
        reads = np.vstack([x.port("tip").rotation_modes, x.port("tip").translation_modes])
        softness.append(reads @ np.linalg.solve(x.stiffness, reads.T))
    np.testing.assert_allclose(*softness, atol=1e-8)


def test_cholesky_factor_solves():
    big = lattice(12, 6, 6)
    A: Any = scipy.sparse.csr_array(big[1] + 10 * scipy.sparse.eye_array(big[1].shape[0]))
    done = []
    factor = SparseCholesky(A, np.repeat(big[2], 3, axis=0), 6, done.append)
    assert len(done) > 5 and done[-1] == 1.0 and sorted(done) == done
    b = np.random.default_rng(0).standard_normal((A.shape[0], 3))
    np.testing.assert_allclose(A @ factor.solve(b), b, atol=1e-10)
    np.testing.assert_allclose(factor.solve(b[:, 0]), factor.solve(b)[:, 0], atol=1e-12)


# ---- meshes -------------------------------------------------------------------------------------

skfem = pytest.importorskip("skfem")


def strip():
    sides = np.linspace(0, 1, 9), np.linspace(0, 0.1, 2), np.linspace(0, 0.05, 2)
    return skfem.MeshHex.init_tensor(*sides)


STEEL = 2e11, 0.3, 7800.0
ENDS: dict[str, Any] = {
    "root": lambda x: x[:, 0] < 1e-9,
    "ports": {"tip": lambda x: x[:, 0] > 1 - 1e-9},
}


def test_a_strip_is_nearly_a_beam():
    mesh = strip().to_meshtet()
    found = pp.FlexibleInertia.from_mesh(mesh, *STEEL, **ENDS, modes=3)
    beam = pp.FlexibleInertia.beam(
        1.0, 39.0, (2e11 * 0.05 * 0.1**3 / 12, 2e11 * 0.1 * 0.05**3 / 12), modes=3
    )
    assert found.mass == pytest.approx(39.0) and found.rigid.com_B[0] == pytest.approx(0.5)
    np.testing.assert_allclose(found.frequencies[:3], beam.frequencies[:3], rtol=0.03)
    assert found.shape is not None and len(found.shape.triangles) == 68


def test_mass_of_a_mesh_moves_as_its_matrix_says():
    """M(η) = B* M_FE B, formed densely, for a consistent mass matrix."""
    from phipsi.flexible.finite_elements import mesh_matrices

    mesh = skfem.MeshTet.init_tensor(*[np.array([0, 0.3, 0.5])] * 3)
    place: dict[str, Any] = {"order": 2, "origin": (0, 0, 0), "scale": 1.0}
    parts = mesh_matrices(mesh, *STEEL, root=lambda x: x[:, 0] == 0, ports={}, **place)
    nodes, matrix = parts["nodes"], parts["mass"]
    parts["triangles"] = np.tile(np.arange(len(nodes))[:, None], 3)  # all nodes, to see shapes
    found = pp.FlexibleInertia.from_matrices(**parts, modes=3)
    assert found.shape is not None
    eta = np.random.default_rng(2).uniform(-1, 1, 3)
    moved = found.shape.deformed(eta)
    flat = found.shape.modes.reshape(-1, 3)
    B = np.hstack([np.vstack([-cross_matrix(r) for r in moved]),
                   np.tile(np.eye(3), (len(nodes), 1)), flat])  # fmt: skip
    expected = B.T @ matrix @ B
    np.testing.assert_allclose(found.inertia_at(eta), expected, atol=1e-10 * expected.max())


def test_meshes_come_from_files_too(tmp_path):
    import meshio

    file = tmp_path / "strip.vtk"
    strip().scaled(1000.0).translated((5.0, 0, 0)).save(str(file))
    direct = pp.FlexibleInertia.from_mesh(strip(), *STEEL, **ENDS, modes=2, order=1)
    options: dict[str, Any] = {"scale": 0.001, "origin": (0.005, 0, 0), "modes": 2, "order": 1}
    options |= ENDS
    for mesh in (str(file), pathlib.Path(file), meshio.read(file)):
        found = pp.FlexibleInertia.from_mesh(mesh, *STEEL, **options)
        np.testing.assert_allclose(found.frequencies, direct.frequencies, rtol=1e-6)


def test_named_boundaries():
    mesh = strip().with_boundaries({"wall": lambda x: x[0] == 0, "end": lambda x: x[0] == 1})
    found = pp.FlexibleInertia.from_mesh(mesh, *STEEL, root="wall", ports={"tip": "end"},
                                         modes=1, order=1)  # fmt: skip
    direct = pp.FlexibleInertia.from_mesh(strip(), *STEEL, **ENDS, modes=1, order=1)
    np.testing.assert_allclose(found.frequencies, direct.frequencies, rtol=1e-9)
    with pytest.raises(ModelError, match="'floor', which the mesh does not name.*wall"):
        pp.FlexibleInertia.from_mesh(mesh, *STEEL, root="floor")


@pytest.mark.parametrize(
    ("mesh", "change", "message"),
    [
        (strip(), {"young": -1.0}, "young must be between 0 and inf, not -1"),
        (strip(), {"poisson": 0.5}, "poisson must be between -1 and 0.5"),
        (strip(), {"order": 3}, "order of the displacements must be 1 or 2"),
        (strip(), {"ports": {"tip": lambda x: x[:, 0] > 9}}, "port 'tip' has no nodes"),
        (strip(), {"ports": {"tip": lambda x: x}}, "function of port 'tip' must give True"),
        (strip(), {"root": [10**6]}, "vertex numbers from 0 to 35"),
        (skfem.MeshTri(), {}, "MeshTri1 is not a mesh of solids"),
        ("missing.vtk", {}, "there is no file 'missing.vtk'"),
        (__file__, {}, "cannot be read as a mesh"),
    ],
)
def test_bad_meshes(mesh, change, message):
    good = {"young": 2e11, "poisson": 0.3, "density": 7800.0, **ENDS, "modes": 1}
    with pytest.raises(ModelError, match=message):
        pp.FlexibleInertia.from_mesh(mesh, **good | change)


# ---- input that cannot be right ------------------------------------------------------------------


def changed(matrix, at, value):
    out = matrix.toarray()
    out[at] += value
    return out


LOOSE = lattice(3)
TWO = (
    scipy.sparse.block_diag([M, LOOSE[0]]),
    scipy.sparse.block_diag([K, LOOSE[1]]),
    np.vstack([NODES, LOOSE[2] + [5, 0, 0]]),
)
FREE = scipy.linalg.eigh(K.toarray(), M.toarray())[1].reshape(54, 3, -1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mass": changed(M, (0, 4), 1.0)}, r"mass is not symmetric: entry \[0, 4\] is 1 .*y of n"),
        ({"stiffness": changed(K, (3, 4), 9e3)}, r"stiffness is not symmetric: entry \[3, 4\]"),
        ({"stiffness": K * (1 + 0.1j)}, "stiffness is not a matrix .* entries are complex"),
        ({"mass": -M}, "mass is not positive: its diagonal is .* of node"),
        (
            {"mass": changed(M, ([0, 4], [4, 0]), 50.0)},
            "mass is not positive: .* eigenvalue .* of node",
        ),
        ({"mass": changed(M, (0, 0), 50.0)}, "a body has the same in all directions"),
        ({"stiffness": changed(K, (0, 0), 1e3)}, "stiffness resists a rigid translation along x"),
        ({"stiffness": -K}, "stiffness is not positive"),
        ({"stiffness": K * np.nan}, "stiffness has entries that are not finite"),
        ({"nodes": NODES[1:]}, r"mass has shape \(162, 162\); with 53 nodes it must be"),
        ({"nodes": NODES[:, :2]}, r"nodes must be finite positions \(k, 3\)"),
        ({"mass": np.eye(324)}, r"mass has shape \(324, 324\), but stiffness has \(162, 162\)"),
        ({"root": []}, "root has no nodes"),
        ({"root": [0]}, "the root has one node with 3 degrees of freedom"),
        ({"root": [0, 1]}, "the root has 2 nodes on one line"),
        ({"ports": {"tip": []}}, "port 'tip' has no nodes"),
        ({"ports": {"tip": [53]}}, "port 'tip' has one node .* Give at least three nodes"),
        ({"ports": {"tip": [99]}}, "port 'tip' names node 99, but there are the nodes 0 to 53"),
        ({"ports": {"tip": [1.5]}}, "must be a list of node numbers"),
        ({"ports": {"tip": [8, 50, 51, 52]}}, "node 8 belongs to the root and to port 'tip'"),
        ({"ports": {"a": TIP, "b": TIP}}, "node 45 belongs to port 'a' and to port 'b'"),
        ({"tie": "glue"}, "tie='glue' is not one of 'rigid', 'mean'"),
        ({"tie": {"top": "mean"}}, "there is no port 'top'"),
        ({"positions": {"top": (0, 0, 0)}}, "there is no port 'top'"),
        ({"modes": -1}, "modes must be an integer ≥ 0"),
        ({"modes": 1000}, "1000 modes are asked for, .* only 108"),
        ({"modes": 0, "ports": {}}, "leaves nothing that deforms"),
        ({"max_frequency": 1e-3}, "no mode is left: the lowest has"),
        ({"basis": "guyan"}, "basis=.* is not one of"),
        ({"modes": FREE[:, :, [7, 8, 7]]}, "modes 0 and 2 are equal"),
        ({"modes": FREE[:, :, [7, 0]]}, "mode 1 moves nothing relative to the root"),
        ({"modes": FREE[:5]}, r"modes must be a number of modes or shapes \(54, 3, n\)"),
        (
            dict(zip(("mass", "stiffness", "nodes"), TWO, strict=True)),
            "27 nodes are not connected to the root, for example node 54",
        ),
    ],
)
def test_bad_matrices_are_rejected(change, message):
    good = {"mass": M, "stiffness": K, "nodes": NODES, "root": ROOT, "ports": {"tip": TIP}}
    with pytest.raises(ModelError, match=message):
        pp.FlexibleInertia.from_matrices(**good | change)


def test_a_part_that_hangs_on_one_spring_is_a_mechanism():
    mass, stiffness, nodes = lattice(3)
    nodes = np.vstack([nodes, nodes[-1] + [0.1, 0, 0]])
    e = nodes[-1] - nodes[-2]
    spring = 1e3 * np.outer(e, e) / (e @ e)
    big = np.zeros((84, 84))
    big[:81, :81] = stiffness.toarray()
    big[78:, 78:] += np.block([[spring, -spring], [-spring, spring]])
    with pytest.raises(ModelError, match="near node 27, .* can move without any elastic force"):
        pp.FlexibleInertia.from_matrices(
            scipy.sparse.block_diag([mass, np.eye(3)]), big, nodes, root=np.arange(9)
        )


def test_progress_goes_to_the_end():
    seen = []
    body(progress=lambda done, total: seen.append((done, total)))
    assert {total for _, total in seen} == {100.0}
    assert sorted(seen) == seen and seen[-1][0] == 95.0 and len(seen) > 3


# ---- files --------------------------------------------------------------------------------------


def test_files_keep_every_number(tmp_path):
    for k, found in enumerate(
        (body(), pp.FlexibleInertia.beam(1.0, 1.0, 1.0), body(ports={}, triangles=()))
    ):
        file = tmp_path / f"{k}.npz"
        found.save(file)
        again = pp.FlexibleInertia.load(file)
        assert again == found and again.ports == found.ports and again.shape == found.shape


def test_damaged_files(tmp_path):
    good, file = tmp_path / "good.npz", tmp_path / "bad.npz"
    body().save(good)
    arrays = dict(np.load(good))
    with pytest.raises(FileError, match="there is no such file"):
        pp.FlexibleInertia.load(file)
    for k, length in enumerate((0, 10, 1000)):
        file.write_bytes(good.read_bytes()[:length])
        with pytest.raises(FileError, match=r"not an \.npz archive"):
            pp.FlexibleInertia.load(file)
        assert k < 3
    for change, message in (
        ({"format": np.array("other")}, "'other' is not 'phipsi flexible body 1'"),
        ({"extra": np.zeros(3)}, "extra: this array is not a part"),
        ({"port_names": np.array(["a", "b"])}, "ports and their names differ"),
        ({"S1": np.array([{}], dtype=object)}, "not an .npz archive of plain arrays"),
        ({"S1": np.zeros(3)}, "bad.npz:1: .*S1 must have shape"),
        ({"S1": np.array(["a"])}, "S1: this array has the type <U1, not numbers"),
        ({"mass": np.zeros(3)}, "bad.npz:1: "),
        ({"port_names": np.zeros(1)}, "port_names: this array has the type float64"),
        ({"shape_triangles": np.full((1, 3), np.nan)}, "bad.npz:1: "),
        ({"x" * 5000: np.zeros(3)}, "this array is not a part"),
    ):
        np.savez(file, **arrays | change)
        with pytest.raises(ModelError, match=message):
            pp.FlexibleInertia.load(file)
    np.savez(file, **{k: v for k, v in arrays.items() if k != "S1"})
    with pytest.raises(FileError, match="S1: this array is missing"):
        pp.FlexibleInertia.load(file)
    np.savez(file, **{k: v for k, v in arrays.items() if k != "shape_nodes"})
    with pytest.raises(FileError, match="shape_nodes: this array is missing"):
        pp.FlexibleInertia.load(file)


def test_files_take_no_more_memory_than_they_may(tmp_path):
    """A file of 40 kB that unpacks to 40 MB, one whose header claims 8 TB, a pipe without end."""
    file = tmp_path / "boom.npz"
    body().save(file)
    arrays = dict(np.load(file))
    np.savez_compressed(file, **arrays | {"shape_nodes": np.zeros((5_000_000, 1))})
    with pytest.raises(FileError, match=r"unpacks to 40 MB or more.*load\('.*', max_bytes=…\)"):
        pp.FlexibleInertia.load(file, max_bytes=10_000_000)
    head = np.lib.format.header_data_from_array_1_0(np.zeros(1)) | {"shape": (10**12,)}
    with zipfile.ZipFile(file, "w") as archive, archive.open("mass.npy", "w") as member:
        np.lib.format.write_array_header_1_0(member, head)
    with pytest.raises(FileError, match=r"has the shape \(1000000000000,\), which"):
        pp.FlexibleInertia.load(file)
    os.mkfifo(tmp_path / "pipe.npz")
    with pytest.raises(FileError, match="is not a regular file"):
        pp.FlexibleInertia.load(tmp_path / "pipe.npz")


def test_every_changed_byte_of_a_file_is_named_or_harmless(tmp_path):
    file = tmp_path / "boom.npz"
    whole = pp.FlexibleInertia.beam(1.0, 1.0, 1.0)
    whole.save(file)
    good = file.read_bytes()
    rng = np.random.default_rng(0)
    rejected = 0
    for at in rng.choice(len(good), 400, replace=False):
        bad = bytearray(good)
        bad[at] ^= 1 << rng.integers(8)
        file.write_bytes(bad)
        try:
            pp.FlexibleInertia.load(file)
        except FileError:
            rejected += 1
    assert rejected > 200
