"""Attributes of models of Pinocchio, MuJoCo and Drake answer with the way of this library."""

import copy
import pickle
import re

import pytest

import phipsi as pp
from phipsi.core.model.foreign_attribute_hints import ATTRIBUTES, METHODS, SAID_OTHERWISE

ARM = pp.examples.planar_arm(2)
TABLES = [*ATTRIBUTES.values(), SAID_OTHERWISE]
ROWS = [(name, here) for table in TABLES for names, here in table.items() for name in names.split()]


def names_of(library):
    return {name for names in ATTRIBUTES[library] for name in names.split()}


@pytest.mark.parametrize("mechanism", [ARM, pp.System(ARM)], ids=["model", "system"])
def test_every_name_of_others_is_answered(mechanism):
    for name, _ in ROWS:
        with pytest.raises(AttributeError, match=rf"no attribute '{name}': .*here ") as caught:
            getattr(mechanism, name)
        assert (caught.value.name, caught.value.obj) == (name, mechanism)


def test_answers_name_what_there_is():
    for _, here in ROWS:
        for name in re.findall(r"model\.(\w+)", here):
            assert hasattr(ARM, name), here
        for name in re.findall(r"pp\.(\w+)", here):
            assert hasattr(pp, name), here
    assert _text("masses").endswith("here write [x.mass for x in model.inertias]")
    assert "here a model has no step" in _text("opt")


def test_the_names_are_those_of_others():
    """What is asked for exists there."""
    pinocchio = pytest.importorskip("pinocchio")
    missing = {n for n in names_of("Pinocchio") if not hasattr(pinocchio.Model(), n)}
    assert missing <= {"data"}  # that is beside it
    mujoco = pytest.importorskip("mujoco")
    model = mujoco.MjModel.from_xml_string("<mujoco/>")
    there = {*dir(model), *dir(mujoco.MjData(model)), *dir(model.opt)}
    there |= {*dir(mujoco.MjSpec()), "keyframes"}  # the last is what they are called
    assert names_of("MuJoCo") <= there


def test_functions_and_old_names_are_answered_too():
    assert "pp.mass_matrix(model, …)" in _text("mass_matrix")
    assert "pp.mass_matrix is here what Drake calls" in _text("CalcMassMatrix")
    for name in METHODS.split():
        assert "Drake" in _text(name)
    assert _text("nothing_of_the_kind").endswith("'nothing_of_the_kind'")
    assert _text("__array__").endswith("'__array__'")


def test_only_what_is_there_is_listed():
    for mechanism in (ARM, pp.System(ARM)):
        assert all(hasattr(mechanism, name) for name in dir(mechanism))
        assert {"nq", "joints", "cache", "__slots__"} <= set(dir(mechanism))
        assert not {"createData", "mass_matrix"} & {*dir(mechanism), *dir(type(mechanism))}


def test_copies_do_not_ask():
    assert pickle.loads(pickle.dumps(ARM)) == copy.deepcopy(ARM) == ARM


def _text(name):
    with pytest.raises(AttributeError) as caught:
        getattr(ARM, name)
    return str(caught.value)
