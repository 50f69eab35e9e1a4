"""Rules for one computation: proved first, applied from left to right, recorded, never kept."""

import numpy as np
import pytest
from random_models import branching, chain

import phipsi as pp
from phipsi.errors import InputError, LoweringError

ARM = chain(3, 5, ["revolute"])
GEARED = branching(4, 6, armature=True)
LONG = pp.Identity("H phi - H psi", "H phi K H psi", name="the long way", source="mine")


def rewrites(expr, model=ARM, **options):
    return [step.name for step in pp.explain(expr, model, **options).rewrites]


def same_by_dense(expr: str, model, rules, **options):
    """The compiled value with the rules, against the oracle, which knows of no rules."""
    rng = np.random.default_rng(3)
    q, f = model.random_configuration(rng), rng.normal(size=(model.n_bodies, 6))
    program = pp.compile(expr, model, rules=rules, backend="reference", **options)
    inputs = {"q": q, "f_ext": f, "v": rng.normal(size=model.nv), "tau": rng.normal(size=model.nv)}
    found = program(*(inputs[name] for name in program.inputs))
    wanted = pp.evaluate_dense(expr, model, **{"q": q, **{n: inputs[n] for n in program.inputs}})
    np.testing.assert_allclose(np.ravel(found), np.ravel(wanted), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("mode", ["full", "as_written"])
@pytest.mark.parametrize("expr", ["(H phi - H psi) f_ext", "2 H phi f_ext - 2 H psi f_ext"])
def test_a_rule_is_applied_and_recorded(expr, mode):
    step = next(s for s in pp.explain(expr, GEARED, rules=[LONG], rewrite=mode).rewrites)
    assert step.name == "the long way" and step.source == "mine; proved on this tree"
    assert step.before is LONG.sides[0] and step.after is LONG.sides[1]
    same_by_dense(expr, GEARED, [LONG], rewrite=mode)
    assert "the long way" not in rewrites(expr, GEARED, rewrite=mode)  # nothing is kept


@pytest.mark.parametrize(
    ("rule", "expr"),
    [
        ("mass_matrix^-1 = (I - H psi K)* D^-1 (I - H psi K)", "mass_matrix^-1 tau"),
        ("2 K H = 2 E_phi - 2 E_psi", "H phi K H f_ext"),
        ("E_psi = E_phi - K H", "H psi E_psi f_ext"),
        ("psi* H* K* phi* = phi* - psi*", "v* H phi K H psi f_ext"),
        ("bd(phi M phi*) = R", "H bd(phi M phi*) H* v"),
        ("logdet(mass_matrix) = logdet(D)", "logdet(mass_matrix)"),
        ("mass_matrix = H phi M phi* H* + Jr", "mass_matrix v"),
    ],
)
def test_rules_of_every_shape(rule, expr):
    """Inverses, coefficients, leaves, adjoints, block-diagonal parts, definitions."""
    same_by_dense(expr, GEARED, [rule])
    same_by_dense(expr, GEARED, [rule], rewrite="as_written")
    assert rule in rewrites(expr, GEARED, rules=[rule])


def test_a_rule_may_undo_one_of_the_library():
    """ψ K H φ = φ − ψ is a rule of the library; the opposite does not run for ever."""
    opposite = pp.Identity("phi - psi", "psi K H phi", name="opposite")
    names = rewrites("H (phi - psi) f_ext", GEARED, rules=[opposite])
    assert "opposite" in names and "ψ K H φ" in names
    same_by_dense("H (phi - psi) f_ext", GEARED, [opposite])


def test_a_circle_of_rules_ends_with_their_names():
    one = pp.Identity("phi K H psi", "psi K H phi", name="there")
    two = pp.Identity("psi K H phi", "phi K H psi", name="back")
    with pytest.raises(LoweringError, match="cycle: 'there' and 'back'"):
        pp.compile("phi K H psi", ARM, rules=[one, two])
    with pytest.raises(InputError, match="contains its left side"):
        pp.compile("phi", ARM, rules=["phi = phi phi^-1 phi"])
    grow = pp.Identity("H phi", "H psi psi^-1 phi", name="grow")
    more = pp.Identity("psi^-1 phi", "psi^-1 phi phi^-1 phi", name="more")
    with pytest.raises(InputError, match="contains its left side"):
        pp.compile("H phi", ARM, rules=[grow, more])
    again = pp.Identity("H psi", "H phi phi^-1 psi", name="again")
    with pytest.raises(LoweringError, match="'grow', 'again' still match after 200 steps"):
        pp.compile("H phi", ARM, rules=[grow, again])


def test_what_is_not_true_is_rejected_with_the_counterexample():
    with pytest.raises(InputError, match="is false: it fails in general; it holds if Jr = 0") as no:
        pp.compile("H G", GEARED, rules=["H G = I"])
    assert "ModelBuilder" in str(no.value) and "on the left" in str(no.value)
    with pytest.raises(InputError, match="because it is false"):
        pp.compile("H phi", ARM, rules=["H phi = H psi"])


def test_tau_is_any_vector():
    """The equations of motion are no rule: a program gets tau and vdot as they come."""
    motion = "mass_matrix vdot + H phi (M phi* (a + gravity) + b)"
    assert pp.prove(f"{motion} + J* f0 = tau")
    with pytest.raises(InputError, match="because it is false"):
        pp.compile("tau", ARM, rules=[f"tau = {motion} + J* f0"], points=["b0"])


def test_conditions_are_those_of_the_model():
    gain = pp.Identity("H G", "I", "Jr = 0", name="gain")
    assert rewrites("H G tau", ARM, rules=[gain], rewrite="as_written") == ["gain"]
    with pytest.raises(InputError, match="'gain' cannot be used for this model: .* rotor"):
        pp.compile("H G", GEARED, rules=[gain])
    with pytest.raises(InputError, match="depends on the model"):
        pp.explain("H G", rules=[gain])
    assert [s.name for s in pp.explain("(H phi - H psi) f_ext", rules=[LONG]).rewrites][0] == (
        LONG.name
    )


def test_what_holds_on_one_mechanism_is_a_rule_for_it_only():
    step = pp.explain("H G", ARM, rules=["H G = I"], rewrite="as_written").rewrites[0]
    assert step.source == "proved on this tree"
    flat = pp.examples.planar_arm(3).with_gravity((0, 0, -9.81))
    still = "H φ M φ* gravity = 0"
    step = pp.explain("v + mass_matrix^-1 H φ M φ* gravity", flat, rules=[still]).rewrites[0]
    assert step.name == still and step.source == "proved for this model"
    with pytest.raises(InputError, match="because it is false"):
        pp.compile("H φ M φ* gravity", flat.with_gravity((0, -1, -9.81)), rules=[still])
    with pytest.raises(InputError, match="proved for the gravity|is false"):
        pp.compile("H φ M φ* gravity", flat, rules=[still], inputs=["gravity"])


@pytest.mark.parametrize(
    ("rules", "options", "text"),
    [
        ("H G = I", {}, r"must be a list of identities. Write  rules=\['H G = I'\]"),
        ([3], {}, "takes identities, their names, or claims"),
        (["I = phi phi^-1"], {}, "in every expression"),
        (["physics: velocities"], {}, "not an equation between two expressions"),
        (["no such identity"], {}, "there is no identity"),
        (["D = H P H* + Jr"], {"inputs": ["D"]}, "proved for the D of the mechanism"),
        (["E_psi = E_phi - K H"], {"inputs": ["M"]}, "proved for the M of the mechanism"),
    ],
)
def test_what_cannot_be_a_rule(rules, options, text):
    with pytest.raises(InputError, match=text):
        pp.compile("H phi", ARM, rules=rules, **options)


def test_a_rule_that_inverts_what_is_singular_here_is_rejected():
    with pytest.raises(
        InputError, match="cannot be used for this model, because it cannot be proved: .* singular"
    ):
        pp.compile("(I - proj_bar)^-1", ARM, rules=["(I - proj_bar)^-1 = psi"])


SERIES = "phi = I + E_phi + E_phi^2 + E_phi^3 + E_phi^4 + E_phi^5"


def test_a_rule_is_proved_on_the_model_that_it_is_used_for():
    """A series that ends is φ on six bodies in a row, and not on ten."""
    short, long = (pp.examples.planar_arm(n) for n in (6, 10))
    same_by_dense("H phi f_ext", short, [SERIES])
    with pytest.raises(InputError, match="'phi = I.* is false") as error:
        pp.compile("H phi f_ext", long, rules=[SERIES])
    assert "This model has 10 bodies in a row" in str(error.value)


def test_a_rule_of_rigid_bodies_is_rejected_where_bodies_deform():
    beam = pp.FlexibleInertia.beam(1.0, 1.0, EI=(1.0, np.inf), modes=1)
    builder = pp.ModelBuilder()
    builder.add_body("boom", joint=pp.joints.Revolute((0, 0, 1)), inertia=beam)
    with pytest.raises(InputError, match="'V\\* b = 0' cannot be used for this model") as error:
        pp.compile("V* b", builder.build(), rules=["V* b = 0"])
    assert "body 'boom' that deforms" in str(error.value) and "It holds on" in str(error.value)
    same_by_dense("V* b", ARM, ["V* b = 0"])


def test_a_rule_about_points_is_proved_for_the_points_and_axes_of_the_program():
    """In body axes B is constant; in world axes it turns with the body."""
    point = [("b2", (0.1, 0.2, 0.3))]
    rule = "Bdot f0 = 0"
    program = pp.compile("Bdot f0", ARM, points=point, axes="body", rules=[rule])
    assert not np.any(program(*([0.5] * n for n in (ARM.nq, ARM.nv)), np.ones((1, 6))))
    with pytest.raises(InputError, match="because it is false"):
        pp.compile("Bdot f0", ARM, points=point, axes="world", rules=[rule])


def test_a_rule_is_rejected_where_the_numbers_of_a_model_have_no_proof():
    arm = pp.examples.seven_joint_arm()
    skew = arm.with_rotor(
        "m", joint=arm.joint_names[4], ratio=30.0, moment=1e-4, axis=(0.6, 0, 0.8)
    )
    with pytest.raises(InputError, match="'the long way' cannot be used .* rotors on skew axes"):
        pp.compile("(H phi - H psi) f_ext", skew, rules=[LONG])
    same_by_dense("(H phi - H psi) f_ext", arm, [LONG])


def test_programs_are_kept_by_their_rules():
    plain, ruled = (pp.compile("H phi - H psi", ARM, rules=r) for r in ([], [LONG]))
    assert plain is pp.compile("H phi - H psi", ARM)
    assert ruled is pp.compile("H phi - H psi", ARM, rules=[LONG]) and ruled is not plain


def test_rules_about_rows_need_the_system():
    ends = {"a": ("b2", (0.5, 0.25, 0)), "b": ("world", (1, 0.5, 0.25))}
    system = pp.System(ARM, [pp.constraints.PointOnLine((0, 0.6, 0.8), name="line", **ends)])
    rule = "A B* phi* H* mass_matrix^-1 H phi B A* = A B* Omega B A*"
    expr = rule.split("=")[0]
    names = rewrites(expr, system, rules=[rule], mode="dense")
    assert names[0] == rule
    q = ARM.random_configuration(1)
    found = pp.compile(expr, system, rules=[rule], mode="dense", backend="reference")(q)
    np.testing.assert_allclose(found, pp.evaluate_dense(expr, system, q=q), rtol=1e-9)
