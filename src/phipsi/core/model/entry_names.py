"""Entries of q and v by names of joints; their names and units for messages, files and figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.core.model.argument_checks import as_list
from phipsi.core.model.entry_units import entry_units
from phipsi.core.model.model import Model
from phipsi.errors import InputError, did_you_mean


def known_joints(model: Model, joints: str | Iterable[str]) -> list[str]:
    """Names of joints of a model, given one or several."""
    names = as_list("joints", joints, "['elbow', 'wrist']")
    for name in names:
        if not isinstance(name, str) or name not in model.joint_names:
            raise InputError(f"there is no joint {name!r}. {did_you_mean(name, model.joint_names)}")
    return names


def rates_of(model: Model, joints: str | Iterable[str] | None) -> NDArray[Any]:
    """Places in v of the joints' own rates, without modes; None means all of v."""
    if joints is None:
        return np.arange(model.nv)
    slices = [model.joint_rates(name) for name in known_joints(model, joints)]
    return np.array([k for s in slices for k in range(s.start, s.stop)], dtype=int)


def modal_rates(model: Model) -> NDArray[Any]:
    """Places in v of the modes of all flexible bodies."""
    pairs = zip(model.v_slices, model.modes, strict=True)
    return np.array([i for at, n in pairs for i in range(at.stop - n, at.stop)], dtype=int)


def entry_names(model: Model, slices: tuple[slice, ...]) -> list[str]:
    """A name for every entry of q or v: that of the joint, with a number if it has several."""
    out: list[str] = []
    for name, joint, at in zip(model.joint_names, model.joints, slices, strict=True):
        size = at.stop - at.start
        if size == 1:
            out.append(name)
        elif size == joint.nq and slices is model.q_slices:
            out += [f"{name}.{part}" for part in joint.coordinate_names]
        else:
            out += [f"{name}.{k}" for k in range(size)]
    return out


def joint_units(model: Model) -> dict[str, list[str]]:
    """Units of the entries of "q", "v", "tau", "vdot", and of the derivatives of q and v.

    Those of modes are "": modal coordinates have the units that their shapes do not have.
    """
    places, speeds = entry_units(model)
    rates = [x.removesuffix("/s") for x in speeds]
    per_second = [f"{x}/s" if x != "1" else "1/s" for x in places]
    accelerations = [f"{x}/s2" for x in rates]
    units = {
        "q": places,
        "v": speeds,
        "tau": [{"rad": "N.m", "mode": "mode"}.get(x, "N") for x in rates],
        "vdot": accelerations,
        "der q": per_second,
        "der v": accelerations,
    }
    return {k: ["" if x.startswith("mode") else x for x in listed] for k, listed in units.items()}


_WORDS = {"1": "1 (quaternions)", "mode": "1 (modes)", "mode/s": "1/s (modes)"}


def unit_texts(model: Model) -> tuple[str, str]:
    """The units of q and of v for the axes of figures, each once: "1 (quaternions), m"."""
    q, v = (", ".join(_WORDS.get(x, x) for x in dict.fromkeys(xs)) for xs in entry_units(model))
    return q, v


def place_name(names: Sequence[str], slices: Sequence[slice], index: int) -> str:
    """The joint an entry of q or v belongs to, quoted, with the entry's number in it."""
    for name, s in zip(names, slices, strict=True):
        if s.start <= index < s.stop:
            return repr(name) if s.stop - s.start == 1 else f"{name!r} (entry {index - s.start})"
    raise IndexError(index)
