"""Natural frequencies against closed forms: beams, tip masses, spin, pendulums."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi.flexible.vibration import energy_shares

pytestmark = pytest.mark.usefixtures("interpreted")

STILL = (0, 0, 0)


def boom(joint, *, tip=None, modes=4, **options):
    """A beam of unit length, mass per length and bending stiffness."""
    builder = pp.ModelBuilder(gravity=STILL)
    beam = pp.FlexibleInertia.beam(1.0, 1.0, EI=1.0, modes=modes, **options)
    builder.add_body("boom", joint=joint, inertia=beam)
    if tip is not None:
        builder.add_body("tip", parent="boom", port="tip", joint=pp.joints.Fixed(), inertia=tip)
    return builder.build()


def test_cantilever():
    found = pp.natural_frequencies(boom(pp.joints.Fixed()))
    roots = np.array([1.8751040687, 4.6940911330, 7.8547574382])
    errors = np.abs(found[:6:2] / roots**2 - 1)
    assert errors[0] < 1e-5 and errors[2] < 1e-3
    assert_allclose(found[1:6:2], found[:6:2], rtol=1e-9)  # both planes


def test_free_beam_has_rigid_motions():
    found = pp.natural_frequencies(boom(pp.joints.Planar()))
    assert_allclose(found[:3], 0, atol=1e-4)
    for root in (4.7300407449, 7.8532046241):
        assert np.abs(found / root**2 - 1).min() < 1e-3


def test_a_mass_on_the_tip():
    found = pp.natural_frequencies(boom(pp.joints.Fixed(), tip=pp.SpatialInertia(1.0)))
    assert_allclose(np.sqrt(found[:4:2]), [1.2479174096, 4.0311394367], rtol=1e-6)


@pytest.mark.parametrize(
    ("speed", "flap", "chord"),
    [(2, (4.1373196, 22.614922), 3.6217970), (6, (7.3603730, 26.809082), 4.2632254),
     (12, (13.170150, 37.603112), None)],
)  # fmt: skip
def test_a_spinning_beam_gets_stiffer(speed, flap, chord):
    model = boom(pp.joints.Revolute((0, 0, 1)))
    v = np.zeros(model.nv)
    v[0] = speed
    found = pp.natural_frequencies(model, v=v, locked="boom")
    for value in (*flap, *(() if chord is None else (chord,))):
        assert np.abs(found / value - 1).min() < 1e-3


def test_without_shortening_it_would_get_softer():
    model = boom(pp.joints.Revolute((0, 0, 1)), stiffening=False)
    v = np.zeros(model.nv)
    v[0] = 2.0
    found = pp.natural_frequencies(model, v=v, locked="boom")
    assert found[0] < 3.516 * 0.95


def test_shapes_are_orthonormal_and_solve_the_equation():
    model = boom(pp.joints.Fixed(), tip=pp.SpatialInertia(1.0, (0, 0, 0), 0.1))
    found = pp.mode_shapes(model)
    mass = pp.mass_matrix(model, model.neutral())
    assert_allclose(found.shapes.T @ mass @ found.shapes, np.eye(model.nv), atol=1e-10)
    stiffness = model.flexible[0].stiffness
    image = found.shapes.T @ stiffness @ found.shapes
    assert_allclose(image, np.diag(found.frequencies**2), rtol=1e-8, atol=1e-6)


def test_rigid_mechanisms_and_unstable_equilibria():
    arm = pp.examples.planar_arm(1)
    found = pp.natural_frequencies(arm, [-np.pi / 2])
    inertia, weight = pp.mass_matrix(arm, [0.0])[0, 0], pp.gravity_forces(arm, [0.0])[0]
    assert_allclose(found, [np.sqrt(weight / inertia)])
    assert np.isnan(pp.natural_frequencies(arm, [np.pi / 2])).all()
    with pytest.raises(pp.errors.InputError, match="finite numbers"):
        pp.mode_shapes(arm, [0.0, 1.0])


def test_elastic_energy_is_that_of_the_deflection():
    model = boom(pp.joints.Revolute((0, 0, 1)), modes=0)
    q = np.array([0.3, 0.01, 0.0, -0.02, 0.005])
    stiffness = model.flexible[0].stiffness
    assert_allclose(pp.elastic_energy(model, q), q[1:] @ stiffness @ q[1:] / 2)
    assert pp.elastic_energy(pp.examples.planar_arm(2), [0.1, 0.2]) == 0


def test_a_result_is_a_pair_that_can_be_shown(tmp_path):
    """Frequencies and shapes, copied with their mechanism; as a table, and as a page."""
    builder = pp.ModelBuilder(gravity=(0, 0, 0))
    beam = pp.FlexibleInertia.beam(1.0, 1.0, EI=(1.0, 3.0), modes=0)
    hub = pp.SpatialInertia.sphere(1.0, mass=9.0)
    builder.add_body("hub <b>", joint=pp.joints.Free(), inertia=hub)
    builder.add_body("boom", parent="hub <b>", joint=pp.joints.Fixed(), inertia=beam)
    found = pp.mode_shapes(builder.build())
    frequencies, shapes = pickle.loads(pickle.dumps(found))
    assert_allclose(frequencies, found.frequencies)
    assert_allclose(shapes, found.shapes)
    assert pickle.loads(pickle.dumps(found)).model == found.model
    table = found._repr_html_()
    assert "boom" in table and "hub &lt;b&gt;" in table and "hub <b>" not in table
    shares = energy_shares(found)
    assert shares[0].startswith("hub <b>") and shares[-1].startswith("boom")
    page = found.to_html(tmp_path / "modes.html", title="<i>")
    text = page.read_text()
    assert text.count("data-mode=") == found.model.nv == 10 and "<i>" not in text
    with pytest.raises(pp.errors.InputError, match="ends in .html"):
        found.to_html(tmp_path / "modes.png")
    still = pp.mode_shapes(pp.examples.planar_arm(1), locked="joint1")
    with pytest.raises(pp.errors.InputError, match="no vibration modes"):
        still.to_html()
