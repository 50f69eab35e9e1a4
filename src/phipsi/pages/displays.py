"""Objects as HTML in notebooks: models with a picture, runs with plots, programs, matrices.

Small, without scripts and without requests; every name is escaped. Classes of earlier layers have
``_repr_html_ = display`` (package_state.py), which comes here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms import kinetic_energy, motions
from phipsi.core.backends import Program
from phipsi.core.model import Model, Pose, SpatialInertia, unit_texts
from phipsi.errors import PhipsiError
from phipsi.flexible import Vibrations, energy_shares
from phipsi.pages.html_file import safe
from phipsi.pages.model_tree import draw_tree, sizes_of
from phipsi.pages.plane_view import TILT, TURN, looks_along, plane_normal
from phipsi.pages.scene import first_configuration, upright
from phipsi.simulation import NOTHING, LinearSystem, Trajectory

Array = NDArray[Any]
_MOST_LINES, _MOST_BODIES, _MOST_ENTRIES, _MOST_CURVES = 60, 400, 12, 12
FEW_ROUNDINGS = 1e-13  # of the energies: a sum over bodies and steps changes as much
_WIDE, _HIGH = 300, 220  # of a picture, pixels
_LINK, _JOINT, _LOOP = "#7b8698", "#e0640e", "#8b5cf6"
_CURVES = ("#e0640e", "#2563eb", "#16a34a", "#9333ea", "#0891b2", "#db2777", "#65a30d", "#64748b")
_PRE = "margin:0;font-size:12px;line-height:1.35;overflow:auto;max-height:260px"


def html_of(thing: Any) -> str:
    """The HTML of an object, by its class; its `repr` if there is no other.

    >>> import phipsi as pp
    >>> "m</td>" in pp.Pose(translation=(0, 0, 1))._repr_html_()
    True
    """
    for kind, write in _WRITERS.items():
        if isinstance(thing, kind):
            return f'<div class="phipsi">{write(thing)}</div>'
    return f"<code>{safe(repr(thing))}</code>"


# ---- models --------------------------------------------------------------------------------------


def _model(mechanism: Any) -> str:
    tree = mechanism.model
    mass = sum(x.mass for x in tree.inertias)
    name = safe(tree.name)[:80] or type(mechanism).__name__
    head = f"<b>{name}</b>: {sizes_of(tree)}, {mass:.4g} kg"
    lines = list(islice(draw_tree(tree), _MOST_LINES + 1))
    more = ["…"] if len(lines) > _MOST_LINES else []
    text = safe("\n".join([*lines[:_MOST_LINES], *more]))
    below = ""
    if mechanism.n_rows:
        names = [c.name for c in mechanism.constraints]
        listed = ", ".join(safe(x)[:60] for x in names[:8]) + (", …" if len(names) > 8 else "")
        below = f"<div>{mechanism.n_rows} constraint rows: {listed}</div>"
    if mechanism.contact_pairs is not None:
        count = len(mechanism.contact_pairs.pairs)
        below += f"<div>{count} pairs of shapes in contact detection</div>"
    parts = f"{picture_of(mechanism)}<pre style='{_PRE}'>{text}</pre>"
    row = f'<div style="display:flex;gap:16px;align-items:flex-start">{parts}</div>'
    return f"<div>{head}</div>{below}{row}"


def picture_of(mechanism: Any, q: Array | None = None) -> str:
    """The bodies as lines between their joints, as an SVG picture seen as pages see it at first.

    `q` (nq,) is by default the neutral configuration, of a system one with closed loops.
    """
    tree = mechanism.model
    if not 0 < tree.n_bodies <= _MOST_BODIES:
        return ""
    at = _first(mechanism) if q is None else q
    X = motions.poses(tree, at)
    loops = mechanism.closures.closures if mechanism.n_rows else ()
    pins = [(k, _place(X, k, frame)) for loop in loops for k, frame in loop.points]
    links: list[tuple[Array, Array, str]] = []
    for k in range(tree.n_bodies):
        ends = [X[c, :3, 3] for c in tree.tree.children[k]]
        ends += [p for body, p in pins if body == k]
        if not ends:  # as far beyond the mass centre as the joint is before it
            ends = [X[k, :3, :3] @ (1.8 * tree.inertias[k].com_B) + X[k, :3, 3]]
        links += [(X[k, :3, 3], end, _LINK) for end in ends]
        if tree.tree.parent[k] < 0 and tree.joints[k].nv < 6:
            links.append((np.zeros(3), X[k, :3, 3], "#c5ccd6"))
    joints = [*X[:, :3, 3], *(p for _, p in pins)]
    points = np.array([p for a, b, _ in links for p in (a, b)] + joints)
    up = upright(tree)
    half = np.ptp(points @ up.T, axis=0) / 2
    flat = _projected(points @ up.T, looks_along(plane_normal(tree), up, half) or (TURN, TILT))
    low, high = flat.min(axis=0), flat.max(axis=0)
    scale = 0.82 * min(_WIDE / max(high[0] - low[0], 1e-9), _HIGH / max(high[1] - low[1], 1e-9))
    if not np.isfinite(scale) or scale > 1e9:
        scale = 1.0
    at = (flat - (low + high) / 2) * [scale, -scale] + [_WIDE / 2, _HIGH / 2]
    pairs = zip(at[: 2 * len(links)].reshape(-1, 2, 2), links, strict=True)
    lines = [
        f'<path d="M{a[0]:.1f} {a[1]:.1f}L{b[0]:.1f} {b[1]:.1f}" stroke="{color}"/>'
        for (a, b), (_, _, color) in pairs
    ]
    colors = [_JOINT] * tree.n_bodies + [_LOOP] * len(pins)
    dots = [
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2" fill="{color}"/>'
        for (x, y), color in zip(at[2 * len(links) :], colors, strict=True)
    ]
    return (
        f'<svg width="{_WIDE}" height="{_HIGH}" style="flex:none" role="img">'
        f'<g stroke-width="6" stroke-linecap="round" fill="none">{"".join(lines)}</g>'
        f"{''.join(dots)}</svg>"
    )


def _first(mechanism: Any) -> Array:
    """The first configuration, or the neutral one where loops cannot be closed."""
    try:
        return first_configuration(mechanism)
    except PhipsiError:
        return mechanism.model.neutral()


def _place(X: Array, body: int, frame: Any) -> Array:
    """A point of a body in the world."""
    place = frame.translation
    return place if body < 0 else X[body, :3, :3] @ place + X[body, :3, 3]


def _projected(points: Array, look: tuple[float, float]) -> Array:
    """Seen as the page sees them at first, (n, 2)."""
    turn, tilt = look
    right = np.array([-np.sin(turn), np.cos(turn), 0.0])
    away = np.array([np.cos(tilt) * np.cos(turn), np.cos(tilt) * np.sin(turn), np.sin(tilt)])
    return points @ np.column_stack([right, np.cross(away, right)])


# ---- runs ----------------------------------------------------------------------------------------


def _run(run: Trajectory) -> str:
    head = f"<div>{safe(repr(run))}</div>"
    if len(run) < 2:
        return head
    model = run.model
    names = [n for n, at in zip(model.joint_names, model.q_slices, strict=True)
             for _ in range(at.start, at.stop)]  # fmt: skip
    plots = [
        _plot(f"q, {unit_texts(model)[0]}", run.t, np.asarray(run.q), names),
        _plot("energy, J", run.t, np.asarray(run.energy)[:, None], ["total"], energy_size(run)),
    ]
    page = "<div>As an HTML page: <code>run.to_html('run.html')</code></div>"
    return f'{head}<div style="display:flex;gap:16px">{"".join(plots)}</div>{page}'


def energy_size(trajectory: Trajectory) -> float:
    """The largest kinetic, potential or total energy, J, whose rounding is in their sum."""
    kinetic = kinetic_energy(trajectory.model, trajectory.q, trajectory.v)
    parts = (kinetic, trajectory.energy, trajectory.energy - kinetic)
    return max(float(np.abs(np.nan_to_num(x)).max(initial=0.0)) for x in parts)


def _plot(title: str, t: Array, y: Array, names: Sequence[str], size: float = 0.0) -> str:
    """Curves over time as an SVG picture, at most as many as one can tell apart.

    `size` is that of the numbers whose difference is plotted, where rounding comes from.
    """
    keep = np.unique(np.linspace(0, len(t) - 1, 300).astype(int))
    t, y = np.asarray(t)[keep], y[keep][:, :_MOST_CURVES]
    good = y[np.isfinite(y)]
    if not good.size or not t[-1] > t[0]:
        return ""
    low, high = float(good.min()), float(good.max())
    size = max(abs(low), abs(high), size)
    said = f"{low:.4g} … {high:.4g}"
    if high - low < max(NOTHING, 1e-9 * abs(high), FEW_ROUNDINGS * size):
        # a constant in the middle, not its rounding
        middle, half = (low + high) / 2, 0.5 * size if size > NOTHING else 1.0
        part = f" to {(high - low) / size:.0e}" if high > low and size > NOTHING else ""
        said = f"{0.0 if abs(middle) < FEW_ROUNDINGS * size else middle:.4g}, constant{part}"
        low, high = middle - half, middle + half
    x = 6 + (_WIDE - 12) * (t - t[0]) / (t[-1] - t[0])
    curves: list[str] = []
    for j in range(y.shape[1]):
        heights = 24 + (_HIGH - 48) * (high - y[:, j]) / (high - low)
        pairs = zip(x, heights, strict=True)
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in pairs if np.isfinite(b))
        color = _CURVES[j % len(_CURVES)]
        label = f"<title>{safe(names[j])}</title>" if j < len(names) else ""
        curves.append(f'<polyline points="{points}" stroke="{color}">{label}</polyline>')
    style = 'font-size="11" fill="currentColor"'
    return (
        f'<svg width="{_WIDE}" height="{_HIGH}" role="img"><g fill="none" stroke-width="1.6">'
        f'<rect x="6" y="24" width="{_WIDE - 12}" height="{_HIGH - 48}" stroke="#c5ccd6"/>'
        f"{''.join(curves)}</g>"
        f'<text x="6" y="16" {style}>{safe(title)}: {safe(said)}</text>'
        f'<text x="6" y="{_HIGH - 8}" {style}>{t[0]:.4g} … {t[-1]:.4g} s</text></svg>'
    )


# ---- programs and matrices -----------------------------------------------------------------------


def _program(program: Program) -> str:
    sizes = program.input_shapes
    shapes = ", ".join(f"{safe(n)} {_shape(sizes[n])}" for n in program.inputs)
    head = f"<div><b>{safe(repr(program))}</b> on {safe(program.backend)}; inputs {shapes}</div>"
    return f"{head}<pre style='{_PRE}'>{safe(str(program.explain()))}</pre>"


def _shape(shape: tuple[int, ...]) -> str:
    return "(" + ", ".join("…" if n < 0 else str(n) for n in shape) + ")"


def _linear(system: LinearSystem) -> str:
    time = "ẋ = A x + B u" if system.dt is None else f"x⁺ = A x + B u every {system.dt:g} s"
    n, m, p = len(system.state_names), len(system.input_names), len(system.output_names)
    head = f"<div><b>{time}</b>, y = C x + D u: {n} states, {m} inputs, {p} outputs</div>"
    poles = system.poles()[:_MOST_ENTRIES]
    listed = ", ".join(f"{z.real:.4g}{f' {z.imag:+.4g} i' if z.imag else ''}" for z in poles)
    more = ", …" if n > _MOST_ENTRIES else ""
    tables = "".join(
        f"<div><div>{name}</div>{_table(np.asarray(getattr(system, name)))}</div>" for name in "AB"
    )
    return (
        f'{head}<div>poles: {listed}{more}</div><div style="display:flex;gap:20px">{tables}</div>'
    )


def _vibrations(found: Vibrations) -> str:
    pairs = list(zip(found.frequencies, energy_shares(found), strict=False))
    rows = [["mode", "Hz", "rad/s", "kinetic energy in"]]
    rows += [[str(i + 1), _number(w / (2 * np.pi)), _number(w), where]
             for i, (w, where) in enumerate(pairs[:_MOST_ENTRIES])]  # fmt: skip
    more = ["…"] * 4 if len(pairs) > _MOST_ENTRIES else []
    page = "<div>Animated, as an HTML page: <code>modes.to_html('modes.html')</code></div>"
    head = f"<div><b>Small vibrations</b> of {safe(repr(found.model))}</div>"
    return f"{head}{_cells([*rows, *([more] if more else [])])}{page}"


def _pose(pose: Pose) -> str:
    R, p = pose.rotation, pose.translation
    rows = [[*(_number(x) for x in R[i]), f"{_number(p[i])} m"] for i in range(3)]
    return "<div>rotation matrix, and position</div>" + _cells(rows)


def _inertia(inertia: SpatialInertia) -> str:
    J = inertia.moment_about_com_B
    com = ", ".join(_number(x) for x in inertia.com_B)
    main = ", ".join(_number(x) for x in np.linalg.eigvalsh(J))
    head = f"<div><b>{inertia.mass:.6g} kg</b>, centre of mass ({com}) m</div>"
    text = "<div>moment of inertia about the centre of mass, kg m²</div>"
    return f"{head}{text}{_table(J)}<div>principal moments {main} kg m²</div>"


def _number(x: float) -> str:
    return f"{float(x):.5g}"


def _table(matrix: Array) -> str:
    """A matrix; of a large one the first rows and columns."""
    most = _MOST_ENTRIES
    cut = np.atleast_2d(matrix)[:most, :most]
    rows = [[_number(x) for x in row] for row in cut]
    if matrix.shape[1] > most:
        rows = [[*row, "…"] for row in rows]
    if matrix.shape[0] > most:
        rows.append(["…"] * len(rows[0]))
    return _cells(rows)


def _cells(rows: Iterable[Sequence[str]]) -> str:
    style = 'style="text-align:right;padding:0 7px;font-family:monospace;border:0"'
    lines = ("".join(f"<td {style}>{safe(x)}</td>" for x in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<table style="border-left:2px solid;border-right:2px solid">{body}</table>'


_WRITERS: dict[type, Callable[[Any], str]] = {
    Model: _model,
    Trajectory: _run,
    Program: _program,
    LinearSystem: _linear,
    Vibrations: _vibrations,
    Pose: _pose,
    SpatialInertia: _inertia,
}
