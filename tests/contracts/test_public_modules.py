"""Public modules show their public names, and nothing else."""

import inspect

import pytest

import phipsi as pp
from phipsi.grasping import grasp

MODULES = {name: x for name in pp.__all__ if inspect.ismodule(x := getattr(pp, name))}


@pytest.mark.parametrize("name", MODULES)
def test_dir_lists_what_is_public(name):
    module = MODULES[name]
    assert dir(module) == sorted(module.__all__)
    assert all(hasattr(module, inner) for inner in module.__all__)
    for inner in module.__all__:  # a module beside a class of the same name
        twin = inner.lower()
        assert twin == inner or not inspect.ismodule(getattr(module, twin, None)), twin


def test_modules_of_such_names_are_still_imported():
    assert grasp.Grasp is pp.grasping.Grasp
    with pytest.raises(AttributeError, match="has no attribute 'grasp'"):
        _ = pp.grasping.grasp  # pyright: ignore
