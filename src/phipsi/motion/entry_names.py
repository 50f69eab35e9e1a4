"""Names of the entries of q and v, for messages, files and figures."""

from __future__ import annotations

from collections.abc import Sequence

from phipsi.model.model import Model


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


def place_name(names: Sequence[str], slices: Sequence[slice], index: int) -> str:
    """The joint an entry of q or v belongs to, quoted, with the entry's number in it."""
    for name, s in zip(names, slices, strict=True):
        if s.start <= index < s.stop:
            return repr(name) if s.stop - s.start == 1 else f"{name!r} (entry {index - s.start})"
    raise IndexError(index)
