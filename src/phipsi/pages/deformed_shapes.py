"""What pages draw of bodies that deform: nodes that modes move, and ports with what they carry."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.core.model import FlexibleHinge, FlexibleInertia, FlexibleShape, Model, Port
from phipsi.pages.html_file import packed, rounded
from phipsi.pages.shapes_and_colors import DrawnSolid

Array = NDArray[Any]
_PIECES = 12  # of a line from the origin to a port
_THICK = 0.025  # radius of a tube, of the length of the body
_WIRE = 0.05  # and in a net, of the length of a segment


def deformed_bodies(model: Model) -> list[dict[str, Any]]:
    """Every body with modes: where its coordinates are in q, and its shape for deformation.js.

    `first` and `count` are the modal coordinates in q. Nodes and their displacements per mode are
    packed; a body that says nothing about its looks has lines from its origin to its ports. One
    that `shortens` is drawn with the second-order motion of its segments too.
    """
    out: list[dict[str, Any]] = []
    for k, inertia in _flexible(model):
        shape = drawn_shape(inertia)
        nodes = np.zeros((0, 3)) if shape is None else shape.nodes
        out.append(
            {
                "body": k,
                "first": modal_slice(model, k).start,
                "count": model.modes[k],
                "nodes": packed(nodes),
                "modes": packed(() if shape is None else np.moveaxis(shape.modes, -1, 0)),
                "triangles": [] if shape is None else shape.triangles.ravel().tolist(),
                "segments": [] if shape is None else shape.segments.ravel().tolist(),
                "shortens": any(port.second_order.any() for port in inertia.ports),
                "radius": 0.0 if shape is None else rounded(_radius(shape)),
            }
        )
    return out


def ports_of(model: Model) -> list[dict[str, Any]]:
    """Bodies on ports: the number of the flexible body in the list above, and the port's motion.

    `turns` and `moves` have three numbers per mode: those of rotation and translation of `Port`.
    """
    number = {k: i for i, (k, _) in enumerate(_flexible(model))}
    out: list[dict[str, Any]] = []
    for k, (joint, parent) in enumerate(zip(model.joints, model.parent, strict=True)):
        port = joint.port if isinstance(joint, FlexibleHinge) else None
        if isinstance(port, Port) and parent in number:
            out.append(
                {
                    "body": k,
                    "on": number[parent],
                    "position": port.position.tolist(),
                    "turns": port.rotation_modes.T.ravel().tolist(),
                    "moves": port.translation_modes.T.ravel().tolist(),
                }
            )
    return out


def modal_slice(model: Model, body: int) -> slice:
    """The modal coordinates of a body in q: they follow the coordinates of its joint."""
    stop = model.q_slices[body].stop
    return slice(stop - model.modes[body], stop)


def joint_entries(model: Model) -> Array:
    """The places in q of the joints, without modes."""
    modal = [modal_slice(model, k) for k in range(model.n_bodies)]
    return np.delete(np.arange(model.nq), np.concatenate([np.arange(model.nq)[s] for s in modal]))


def drawn_bodies(model: Model) -> frozenset[int]:
    """Bodies that are drawn by their deformed shape."""
    return frozenset(k for k, x in _flexible(model) if drawn_shape(x) is not None)


def deformed_boxes(model: Model, q: Array) -> list[DrawnSolid]:
    """Boxes around them, with their thickness, as they are bent at configurations q (k, nq).

    Of many configurations those count at which one of the modes is largest or smallest.
    """
    out: list[DrawnSolid] = []
    for k, inertia in _flexible(model):
        shape = drawn_shape(inertia)
        if shape is None:
            continue
        eta = q[:, modal_slice(model, k)]
        ends = {*eta.argmin(axis=0).tolist(), *eta.argmax(axis=0).tolist()}
        bent = [shape.nodes, *(shape.deformed(eta[i]) for i in sorted(ends))]
        low = np.min([x.min(axis=0) for x in bent], axis=0)
        high = np.max([x.max(axis=0) for x in bent], axis=0)
        x, y, z = ((high - low) / 2 + _thickness(shape)).tolist()
        out.append(DrawnSolid(k, "box", (x, y, z), position=(low + high) / 2))
    return out


def _thickness(shape: FlexibleShape) -> float:
    """The radius of tubes along the segments of a shape, m; surfaces have none."""
    return _radius(shape) if len(shape.segments) else 0.0


def _radius(shape: FlexibleShape) -> float:
    """Of tubes or points, m: by the size of the body; in a net by the length of its meshes."""
    if len(shape.segments) > len(shape.nodes):
        a, b = shape.nodes[shape.segments.T]
        return _WIRE * float(np.median(np.linalg.norm(a - b, axis=1)))
    return _THICK * float(np.ptp(shape.nodes, axis=0).max()) if len(shape.nodes) else 0.0


def drawn_shape(inertia: FlexibleInertia) -> FlexibleShape | None:
    """The shape of a body, or lines from its origin to its ports; None where there is neither.

    A line bends as a cubic that is clamped at the origin and follows its port at the other end:
    w(s) = (3s² − 2s³) Π_v η + (s³ − s²) (Π_ω η) × r.
    """
    if inertia.shape is not None and len(inertia.shape.nodes):
        return inertia.shape
    ports = [port for port in inertia.ports if port.position.any()]
    if not ports:
        return None
    s = np.linspace(0, 1, _PIECES + 1)
    nodes = [s[:, None] * port.position for port in ports]
    moves = [
        (3 * s**2 - 2 * s**3)[:, None, None] * port.translation_modes
        + (s**3 - s**2)[:, None, None]
        * np.cross(port.rotation_modes, port.position, axisa=0, axisc=0)
        for port in ports
    ]
    starts = [i * len(s) for i in range(len(ports))]
    pieces = [(at + i, at + i + 1) for at in starts for i in range(_PIECES)]
    return FlexibleShape(np.concatenate(nodes), np.concatenate(moves), segments=pieces)


def _flexible(model: Model) -> list[tuple[int, FlexibleInertia]]:
    return [(k, x) for k, x in enumerate(model.flexible) if isinstance(x, FlexibleInertia)]
