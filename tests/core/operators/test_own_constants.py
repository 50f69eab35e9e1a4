"""Operators, vectors and scalars of one's own with constant blocks: every route against `dense`."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from random_models import model_from_parents

import phipsi as pp
from phipsi.errors import InputError, LoweringError, SpaceError
from phipsi.operators import H, Jr, M, mass_matrix, phi, tau

RNG = np.random.default_rng(7)
TREE = model_from_parents(
    [-1, 0, 1, 1, 0], 3, ["free", "revolute", "universal", "prismatic", "spherical"], armature=True
)
Q, X = TREE.random_configuration(RNG), RNG.normal(size=TREE.nv)


def square(n: int) -> np.ndarray:
    half = RNG.normal(size=(n, n))
    return half @ half.T


C = pp.custom.operator("C", "rates -> efforts", 0.3, symmetric=True, meaning="damping")
W = pp.custom.operator("W", "motions -> forces", square(6), symmetric=True)
N = pp.custom.operator(
    "N", "forces -> forces", {b: RNG.normal(size=(6, 6)) for b in TREE.body_names}, inverse=True
)
S = pp.custom.operator("S", ("forces", "efforts"), {
    b: RNG.normal(size=(j.nv, 6)) for b, j in zip(TREE.body_names, TREE.joints, strict=True)
})  # fmt: skip
k = pp.custom.vector("k_s", "efforts", RNG.normal(size=TREE.nv), symbol="κ", latex=r"\kappa")
h = pp.custom.scalar("h", 0.25)
g = pp.custom.vector("g_b", "motions", {TREE.body_names[1]: [1.0, 2, 3, 4, 5, 6]})

EXPRESSIONS = [
    C + mass_matrix,
    (mass_matrix + 0.5 * C).inv,
    (C + H @ phi @ (M + W) @ phi.T @ H.T).inv,
    S @ phi @ N @ M @ phi.T @ S.T,
    H @ phi @ N.inv @ phi.T.T @ M @ phi.T @ H.T,
    pp.custom.riccati(M=W, J=C).Omega,
    mass_matrix.inv @ (tau - k) @ h,
    k.T @ mass_matrix.inv @ k @ h,
    H @ phi @ W @ phi.T @ g,
]


def inputs(program):
    named = {"q": Q, "tau": X}
    operand = np.linspace(-1, 1, int(np.prod(program.input_shapes.get("x", ()), dtype=int)))
    named["x"] = operand.reshape(program.input_shapes.get("x", ()))
    return {name: named[name] for name in program.inputs}


CASES = [(x, "reference") for x in EXPRESSIONS] + [(EXPRESSIONS[i], "native") for i in (2, 3, 6, 8)]


@pytest.mark.parametrize(("x", "backend"), CASES, ids=str)
def test_programs_agree_with_dense(x, backend):
    needs = {"tau": X} if "τ" in str(x) else {}
    value = pp.evaluate_dense(x, TREE, Q, **needs)
    program = pp.compile(x, TREE, backend=backend)
    given = inputs(program)
    expected = value if x.is_vector else value @ given["x"].ravel()
    found = np.ravel(program(**given))
    assert found == pytest.approx(np.ravel(expected), rel=1e-9, abs=1e-9)
    if not x.is_vector:
        matrix = pp.compile(x, TREE, backend=backend, mode="dense")
        assert matrix(**inputs(matrix)) == pytest.approx(value, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("backend", ["reference", "native"])
def test_given_values_replace_the_constants(backend):
    x = (C + H @ phi @ W @ phi.T @ H.T).inv @ k @ h
    program = pp.compile(x, TREE, backend=backend, inputs=[W, "k_s", h])
    other = np.array([square(6) for _ in TREE.body_names])
    values = {"W": other, "k_s": X, "h": np.array(2.0)}
    assert program.inputs == ("q", "W", "k_s", "h")
    assert program(q=Q, **values) == pytest.approx(
        pp.evaluate_dense(x, TREE, Q, inputs=values), rel=1e-9
    )
    assert program(q=Q, **values) != pytest.approx(pp.evaluate_dense(x, TREE, Q), rel=1e-3)


def test_derivatives_by_own_vectors_and_scalars():
    y = (mass_matrix + C).inv @ (tau - k) @ h
    kinks = np.asarray(k.row.value.blocks[None])

    def at(given):
        return pp.evaluate_dense(y, TREE, Q, tau=X, inputs=given)

    by_k = pp.diff(y, k).compile(TREE)(Q)
    for i, unit in enumerate(np.eye(TREE.nv)):
        change = at({"k_s": kinks + unit}) - at({"k_s": kinks})  # linear in k
        assert by_k[:, i] == pytest.approx(change, rel=1e-9, abs=1e-9)
    by_h = pp.compile(pp.diff(y, "h"), TREE)(Q, tau=X)
    assert by_h == pytest.approx(at({}) / 0.25, rel=1e-9)
    weight = np.linspace(1, 2, TREE.nv)
    gradients = pp.vjp(y, TREE, ("q", "k_s", "h"))(Q, X, weight)
    assert gradients[1] == pytest.approx(by_k.T @ weight, rel=1e-9)
    assert gradients[2] == pytest.approx(by_h @ weight, rel=1e-9)
    by_q = pp.diff(y, "q").compile(TREE)(Q, tau=X)
    assert gradients[0] == pytest.approx(by_q.T @ weight, rel=1e-8)


def test_derivatives_through_an_own_family():
    with pytest.raises(SpaceError, match=r"riccati\(J=0.1\) must be an operator.*riccati\(J=C\)"):
        pp.custom.riccati(M=W, J=0.1)  # pyright: ignore[reportArgumentType]
    f = pp.custom.riccati(M=M + W, J=C)
    along = np.linspace(-1, 1, TREE.nv)
    moved = pp.compile(pp.diff(f.D.inv, "q", along="dq"), TREE, mode="dense")(Q, along)
    ahead = pp.evaluate_dense(f.D.inv, TREE, _moved(Q, along, 1e-6))
    behind = pp.evaluate_dense(f.D.inv, TREE, _moved(Q, along, -1e-6))
    assert moved == pytest.approx((ahead - behind) / 2e-6, rel=1e-5, abs=1e-6)


def _moved(q, v, h):
    return pp.compile("moved", TREE)(q, h * v)


def test_printing():
    assert str(N.inv @ k_forces()) == "N⁻¹ φ g_b"
    assert (C @ pp.operators.v).text("latex") == "C v"
    assert k.text("latex") == r"\kappa" and str(k) == "κ" and k.text("ascii") == "k_s"
    text = str(pp.explain((mass_matrix + C).inv @ k @ h, TREE))
    assert "₁ is {H; E_φ; M; C" in text and "D₁(k) = " in text and "κ(k) h" in text
    assert "in brackets is a number" not in text  # no point C is in it
    assert "N⁻¹(k)" in str(pp.explain(N.inv @ phi @ W))
    assert pp.parse("C + H phi W phi* H*", custom=[C, W]) is C + H @ phi @ W @ phi.T @ H.T
    assert pp.parse("2 κ", custom=[k]) is 2 * k


def k_forces():
    return pp.operators.phi @ pp.custom.vector("g_b", "forces", 1.0)


def test_equal_contents_are_one_value():
    assert pp.custom.operator("C", "rates -> efforts", 0.3, symmetric=True, meaning="damping") is C
    assert pp.custom.operator("C", "rates -> efforts", 0.31, symmetric=True) is not C
    for x in (*EXPRESSIONS, N, h):
        assert pickle.loads(pickle.dumps(x)) is x
    first = pp.compile(C, TREE)
    assert pp.compile(pp.custom.operator("C", "rates → efforts", 0.3, symmetric=True,
                                  meaning="damping"), TREE) is first  # fmt: skip


def test_constants_do_not_change_the_code():
    texts = []
    for number in (1.0, 2.0):
        U = pp.custom.operator("U_x", "rates -> efforts", number, symmetric=True)
        unit = pp.compile((mass_matrix + U).inv, TREE, backend="native").native.unit
        texts.append(unit.key())
    assert texts[0] == texts[1]


def test_an_own_inertia_is_an_inertia():
    inertias = dict(zip(TREE.body_names, TREE.inertia_matrices, strict=True))
    own = pp.custom.operator("M_own", "motions -> forces", inertias, symmetric=True)
    built_in, mine = H @ phi @ M @ phi.T @ H.T + Jr, H @ phi @ own @ phi.T @ H.T + Jr
    for mode in ("apply", "dense"):
        a, b = (pp.compile(x, TREE, mode=mode, backend="native") for x in (built_in, mine))
        assert a.explain().flops == b.explain().flops
        assert b(**inputs(b)) == pytest.approx(a(**inputs(a)), rel=1e-12)
    a, b = (pp.compile(x.inv, TREE, backend="native") for x in (built_in, mine))
    assert a.explain().flops == b.explain().flops
    assert b(**inputs(b)) == pytest.approx(a(**inputs(a)), rel=1e-12)


def test_proofs_are_about_any_blocks():
    f = pp.custom.riccati(M=W, J=C)
    whiten = pp.operators.I - f.H @ f.psi @ f.K
    true = pp.Identity((C + H @ phi @ W @ phi.T @ H.T).inv, whiten.T @ f.D.inv @ whiten)
    proof = pp.prove(true, TREE)
    assert proof and proof.in_general.method == "exact"
    assert pp.prove(true).holds and not pp.prove(pp.Identity(W @ phi.T, phi @ W)).holds
    assert not pp.prove(pp.Identity(f.P, pp.custom.riccati(M=W).P), TREE)
    same = pp.custom.operator("C2", "rates -> efforts", 0.3, symmetric=True)
    chance = pp.prove(pp.Identity(C, same), TREE)
    assert chance and not chance.in_general.holds
    asymmetric = pp.custom.operator("N2", "motions -> forces", np.diag(np.arange(6.0)))
    assert not pp.prove(pp.Identity(asymmetric, asymmetric.T), TREE).in_general.holds


WRONG = {
    "taken": (lambda: pp.custom.operator("H", "forces -> efforts", 1.0), "hinge map.*'H_custom'"),
    "symbol": (lambda: pp.custom.operator("U2", "forces -> forces", 1.0, symbol="ψ"),
               "the name 'ψ' already belongs"),
    "input": (lambda: pp.custom.vector("q", "rates", 1.0), "the name 'q' already belongs"),
    "word": (lambda: pp.custom.operator("2U", "forces -> forces", 1.0), "identifier"),
    "space": (lambda: pp.custom.operator("U2", "force -> forces", 1.0), "forces"),
    "one space": (lambda: pp.custom.operator("U2", "forces", 1.0), "motions -> forces"),
    "points": (lambda: pp.custom.operator("U2", "point_forces -> forces", 1.0),
               "one for each body"),
    "shape": (lambda: pp.custom.operator("U2", "motions -> forces", np.eye(3)),
              r"\(3, 3\).*\(6, 6\)"),
    "finite": (lambda: pp.custom.operator("U2", "motions -> forces",
                                          {"a": np.full((6, 6), np.nan)}),
               "'a' of U2 has nan"),
    "text": (lambda: pp.custom.operator("U2", "motions -> forces", "much"), "must be numbers"),
    "complex": (lambda: pp.custom.operator("U2", "rates -> efforts", 1j), "must be numbers"),
    "symmetry": (lambda: pp.custom.operator("U2", "motions -> forces", np.triu(np.ones((6, 6))),
                                     symmetric=True), r"\(0, 1\) is 1.0 and entry \(1, 0\)"),
    "dual": (lambda: pp.custom.operator("U2", "forces -> forces", 1.0, symmetric=True),
             "cannot be sym"),
    "singular": (lambda: pp.custom.operator("U2", "motions -> forces", {"a": np.zeros((6, 6))},
                                     inverse=True), "'a' of U2 is singular"),
    "no inverse": (lambda: pp.custom.operator("U2", "motions -> forces", np.eye(6),
                                       inverse=2 * np.eye(6)), "differs from I by 1"),
    "number": (lambda: pp.custom.scalar("h2", [1.0, 2.0]), r"shape \(2,\)"),
    "declared": (lambda: pp.custom.operator("U2", "motions -> forces", phi),
                 "declared body motions"),
    "unsymmetric": (lambda: pp.custom.operator("U2", "motions -> forces", phi @ M, symmetric=True),
                    "differs from its adjoint"),
    "compose": (lambda: C @ phi, "cannot compose"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_operators_are_rejected(case):
    make, text = WRONG[case]
    with pytest.raises((InputError, SpaceError), match=f"(?s){text}"):
        make()


@pytest.mark.parametrize(("block", "text"), [
    ({"nobody": np.eye(6)}, "'nobody' in U3.*no such body"),
    (np.zeros((2, 6, 6)), r"\(2, 6, 6\).*\(5, 6, 6\)"),
])  # fmt: skip
def test_blocks_that_do_not_fit_the_model(block, text):
    U = pp.custom.operator("U3", "motions -> forces", block)
    for run in (lambda: pp.compile(U, TREE), lambda: pp.evaluate_dense(U, TREE, Q)):
        with pytest.raises((InputError, SpaceError), match=f"(?s){text}"):
            run()
    wide = pp.custom.operator("U4", "rates -> efforts", {TREE.joint_names[0]: np.eye(5)})
    with pytest.raises(SpaceError, match=repr(TREE.body_names[0])):
        pp.compile(wide, TREE)


def test_one_name_means_one_operator():
    other = pp.custom.operator("C", "rates -> efforts", 0.4, symmetric=True)
    for run in (lambda: pp.compile(C + other, TREE), lambda: pp.evaluate_dense(C + other, TREE, Q),
                lambda: pp.explain(C + other)):  # fmt: skip
        with pytest.raises(InputError, match="named C, with different contents"):
            run()
    named = pp.custom.operator("hidden", "rates -> efforts", other)
    with pytest.raises(InputError, match="named C"):
        pp.compile(C + named, TREE)


def test_riccati_weights_must_be_symmetric():
    weight = 3 * np.eye(6) + np.triu(np.ones((6, 6)), 1)
    lopsided = pp.custom.operator("W_n", "motions -> forces", weight)
    with pytest.raises(pp.errors.SpaceError, match="symmetric=True"):
        pp.custom.riccati(M=lopsided)
    even = pp.custom.operator("W_s", "motions -> forces", weight + weight.T, symmetric=True)
    arm = pp.examples.planar_arm(2)
    family = pp.custom.riccati(M=even)
    q = arm.random_configuration(0)
    found = pp.compile(family.P, arm, mode="dense")(q)
    np.testing.assert_allclose(found, pp.evaluate_dense(family.P, arm, q), rtol=0, atol=1e-11)


def test_a_proof_on_a_model_knows_its_bodies():
    from phipsi.operators import H, mass_matrix, phi

    arm = pp.examples.seven_joint_arm()
    spelt = pp.custom.operator("Q_1", "motions -> forces", {"elbow": np.eye(6)}, symmetric=True)
    claim = pp.Identity(mass_matrix + H @ phi @ spelt @ phi.T @ H.T, mass_matrix)
    with pytest.raises(pp.errors.InputError, match="elbow_pitch"):
        pp.prove(claim, arm)


# ---- errors that say what differs ----------------------------------------------------------------


def _own(*args, **words):
    return pp.custom.operator("C_two", "rates -> efforts", *args, **words)


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (_own(0.1), _own(0.2), ["the block has 0.", "0.1 in ", "0.2 in "]),
        (
            _own({"a": 1.0}),
            _own({"b": 1.0}),
            ["a table with blocks of a", "a table with blocks of b"],
        ),
        (_own(0.1), _own(0.1, meaning="drag"), ["meaning: ", "'drag' in ", "'' in "]),
        (_own(0.1), _own(0.1, symmetric=True), ["symmetric: ", "False in ", "True in "]),
        (_own(np.array([[1.0]])), _own(np.array([[2.0]])), ["at (0, 0)", "1.0", "2.0"]),
        (_own(0.1), _own(Jr), ["is one block for all bodies", "is Jr"]),
        (_own(Jr), _own(2 * Jr), ["is Jr", "is 2 Jr"]),
        (
            _own(lambda D, c=1.5: c * D),
            _own(lambda D, c=2.5: c * D),
            ["mul(1.5, …) in ", "mul(2.5, …) in "],
        ),
        (
            pp.custom.scalar("C_two", 1.0),
            pp.custom.scalar("C_two", 2.0),
            ["is the number 1.0", "is the number 2.0"],
        ),
    ],
)
def test_two_operators_of_one_name_say_how_they_differ(one, other, words):
    with pytest.raises(pp.errors.PhipsiError, match="are named C_two") as error:
        pp.compile(one + other, pp.examples.planar_arm(1))
    _, *lines, last = str(error.value).splitlines()
    assert all(word in "\n".join(lines) for word in words) and len(set(lines)) == len(lines)
    assert "'C_two_2'" in last


@pytest.mark.parametrize("block", [0.4, lambda D: 2 * D], ids=["table", "formula"])
def test_an_inverse_asks_for_the_declaration_of_symmetry(block):
    arm, q = pp.examples.planar_arm(2), np.array([0.3, -0.2])
    plain = pp.custom.operator("C_sym", "rates -> efforts", block)
    with pytest.raises(LoweringError, match="C_sym is not declared symmetric") as error:
        pp.compile((mass_matrix + plain).inv, arm)
    assert 'pp.custom.operator("C_sym", "rates -> efforts", …, symmetric=True)' in str(error.value)
    declared = pp.custom.operator("C_sym", "rates -> efforts", block, symmetric=True)
    x = (mass_matrix + declared).inv
    assert_allclose(pp.compile(x, arm, mode="dense")(q), pp.evaluate_dense(x, arm, q), rtol=1e-12)


def test_own_rows_are_rows():
    """No second class: an own operator has a row with the fields of the catalogue's."""
    C = _own(0.1, symmetric=True)
    assert type(C.row) is type(Jr.row) and C.row.is_own and not Jr.row.is_own
    assert pickle.loads(pickle.dumps(C)) is C


def test_spaces_are_read_as_they_are_printed():
    short = pp.custom.operator("C_s", "rates -> efforts", 0.4)
    for text in ("joint rates -> joint efforts", "joint  rates ->  joint efforts"):
        printed = pp.custom.operator("C_s", text, 0.4)
        assert (printed.takes, printed.gives) == (short.takes, short.gives)
    with pytest.raises(SpaceError, match="'body rates' is not a space"):
        pp.custom.operator("C_s", "body rates -> efforts", 0.4)
