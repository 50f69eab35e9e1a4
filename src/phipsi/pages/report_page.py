"""`report`: a trajectory as one HTML page with an animation, plots, and how it was computed.

The page is self-contained and its content policy forbids every request, so it opens offline and can
be sent by mail. Its parts are in `assets/`.

Reasons: docs/decisions/0015 and 0050.
"""

from __future__ import annotations

import colorsys
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms import FORWARD_DYNAMICS, forward_with_rows, kinetic_energy
from phipsi.contact import ContactRecord
from phipsi.core.compiler import explain
from phipsi.core.expressions import Expr
from phipsi.core.model import entry_names, unit_texts
from phipsi.errors import InputError, counted, shown, true_or_false
from phipsi.files import joint_values
from phipsi.pages.displays import FEW_ROUNDINGS, energy_size
from phipsi.pages.html_file import PageParts, page_html, page_title, rounded, safe
from phipsi.pages.live_page import continued
from phipsi.pages.recorded_scene import operator_blocks, recorded_scene
from phipsi.papers import Check
from phipsi.simulation import METHODS, NOTHING, WORK, Simulator, Trajectory
from phipsi.support import atomic_write_text, checked_page

Array = NDArray[Any]

_MOST_ROWS = 200


def report(
    trajectory: Trajectory,
    path: str | os.PathLike[str],
    *,
    title: str = "",
    expression: Expr | None = None,
    checks: Sequence[Check | tuple[str, bool | None, str]] = (),
    live: bool | Simulator = False,
) -> Path:
    """Write a trajectory as one self-contained HTML page (animation, plots, recursion).

    The page animates the mechanism (drag, zoom, play, step, slow motion) with the meshes of its
    file, and plots energy, generalized coordinates, velocities and joint forces over the same
    time. It shows an operator expression with its recursion, and the final state. Forces of
    contacts and constraints are arrows; a trajectory with contacts has its certificate. Select a
    body to see its mass, its pose and, at up to 25 times, the blocks of P, D and G there. Press ?
    on the page for all keys. Nothing is fetched when the page is opened.

    Parameters
    ----------
    trajectory : Trajectory
        The result of `simulate`, or of `rollout(…).trajectory()`, with at least one sample.
    path : str or path-like
        The file to write; its name ends in .html.
    title : str, optional
        Title of the page. Default: the name of the model, or else that of the file.
    expression : Expr, optional
        The operator expression to explain. Default: forward dynamics, ℳ⁻¹ (tau − bias), of a system
        with its constraints.
    checks : sequence of Check or of (str, bool or None, str), optional
        Results to list: what was checked, whether it passed (None: skipped), the numbers as text.
    live : bool or Simulator, optional
        The `Simulator` of the trajectory: a button on the page then continues the simulation from
        the state that is shown, as on a `live_page`. True: without controllers and force elements;
        a trajectory with contacts needs the simulator. Default: False.

    Returns
    -------
    Path
        The path of the file.

    See Also
    --------
    live_page : A page that simulates the mechanism in the browser.
    render : A picture or a video of a trajectory.

    Notes
    -----
    **Cost:** a file of about 0.7 MB, 16 kB per velocity, 2.2 kB per body and second, and up to 2 MB
    of meshes.

    Examples
    --------
    >>> import tempfile, pathlib, phipsi as pp
    >>> fall = pp.simulate(pp.examples.planar_arm(2), [0.3, 0.4], [0.0, 0.0], 1.0)
    >>> page = pp.report(fall, pathlib.Path(tempfile.mkdtemp()) / "fall.html")
    >>> page.name
    'fall.html'
    """
    target = checked_page(path)
    options = {"expression": expression, "checks": checks, "live": live}
    return atomic_write_text(target, report_html(trajectory, title=title, path=target, **options))


def report_html(
    trajectory: Trajectory,
    *,
    title: str = "",
    expression: Expr | None = None,
    checks: Sequence[Check | tuple[str, bool | None, str]] = (),
    live: bool | Simulator = False,
    path: Path | None = None,
) -> str:
    """The page that `report` writes, as a string; `path` is the file that it is for."""
    if not isinstance(trajectory, Trajectory):
        raise InputError(
            f"report needs a trajectory first, not {type(trajectory).__name__}:\n"
            "    pp.report(pp.simulate(…), 'run.html')\n"
            "    pp.report(rollout.trajectory(0), 'run.html')"
        )
    if not len(trajectory):
        raise InputError("the trajectory has no samples, so there is nothing to report")
    if not isinstance(live, Simulator):
        live = true_or_false("live", live, "the Simulator of the run, True or False")
    listed = [c if isinstance(c, Check) else Check(*c) for c in checks]
    tiles = "\n".join(_tile(*tile) for tile in _tiles(trajectory))
    sections = (
        f'<section class="tiles">{tiles}</section>',
        '<section class="charts" id="charts"></section>',
        _equation(expression, trajectory),
        _certificate(trajectory) + _checks(listed),
        _tables(trajectory),
    )
    parts: PageParts = {
        "subtitle": _subtitle(trajectory),
        "controls": TRANSPORT,
        "body": "\n".join(sections),
        "footer": _footer(),
        "data": _data(trajectory),
        "scripts": ["timeline.js", "charts.js"],
    }
    if live:
        parts = continued(parts, trajectory, live if isinstance(live, Simulator) else None)
    return page_html(page_title(title, trajectory.model, path), parts)


TRANSPORT = """
    <button id="play" aria-label="play or pause">▶</button>
    <button id="back" aria-label="one frame back">‹</button>
    <button id="forth" aria-label="one frame forward">›</button>
    <output id="clock">0.00 s</output>
    <input id="scrub" type="range" min="0" max="1" step="any" value="0" aria-label="time">
    <select id="speed" aria-label="speed">
      <option value="0.02">0.02×</option><option value="0.1">0.1×</option>
      <option value="0.25">¼×</option><option value="0.5">½×</option>
      <option value="1" selected>1×</option><option value="2">2×</option>
      <option value="5">5×</option>
    </select>
    <button id="force" data-shows="forces" hidden>forces</button>
"""


def _data(trajectory: Trajectory) -> dict[str, Any]:
    return {
        "start": float(trajectory.t[0]),
        "end": float(trajectory.t[-1]),
        "events": [
            {"t": event.t, "name": shown(event.name)} for event in trajectory.events[:_MOST_ROWS]
        ],
        "scene": recorded_scene(trajectory),
        "charts": plots(trajectory),
        "blocks": operator_blocks(trajectory),
    }


# ---- text -------------------------------------------------------------------------------------


def _subtitle(trajectory: Trajectory) -> str:
    model = trajectory.model
    mass = sum(inertia.mass for inertia in model.inertias)
    how = f"integrator {trajectory.integrator}" if trajectory.integrator else "recorded"
    cut = "" if trajectory.complete else " — stopped before its end time"
    return f"{counted(model.n_bodies, 'body')}, {_sizes(trajectory)}, {mass:.4g} kg, {how}{cut}"


def _sizes(trajectory: Trajectory) -> str:
    system, nv = trajectory.system, trajectory.model.nv
    if system is None or not system.n_rows:
        changes = len(trajectory.phases) - 1
        many = f", {counted(changes, 'change')} of the mechanism" if changes > 0 else ""
        return f"{counted(nv, 'degree')} of freedom{many}"
    left = counted(system.mobility(trajectory.q[0]).mobility, "degree")
    rows = counted(system.n_rows, "constraint row")
    return f"nv = {nv}, {rows}, {left} of freedom"


def _tiles(trajectory: Trajectory) -> list[tuple[str, str]]:
    energy = trajectory.energy
    kinetic = float(kinetic_energy(trajectory.model, trajectory.q, trajectory.v).max())
    change = float(np.abs(energy - energy[0]).max())
    method = METHODS.get(trajectory.integrator)
    tiles = [
        (f"{trajectory.t[-1] - trajectory.t[0]:.4g} s", "simulated time"),
        (f"{len(trajectory)}", "samples"),
        (f"{kinetic:.4g} J", "largest kinetic energy"),
        (f"{change:.2g} J", "largest change of total energy"),
    ]
    if change < 0.01 * kinetic:  # else it was not meant to be constant
        tiles.append((f"{change / kinetic:.1e}", "energy change / largest kinetic energy"))
    if trajectory.constraint_residuals.size:
        gap = float(np.abs(trajectory.constraint_residuals).max())
        tiles.append((f"{gap:.1e}", "largest constraint residual (rad, m)"))
    if method is not None:
        tiles.append((f"{method.name.replace('_', ' ')}, order {method.order}", "integrator"))
    if trajectory.has_contacts:
        proof = trajectory.contacts.certificate
        tiles.append((f"{float(proof.overlap):.1e} m", "largest penetration"))
        tiles.append((f"{float(proof.residual):.1e} m/s", "largest contact residual"))
    if trajectory.events:
        tiles.append((f"{len(trajectory.events)}", "events"))
    return tiles


def _tile(number: str, what: str) -> str:
    return f'<div class="tile"><b>{safe(number)}</b><span>{safe(what)}</span></div>'


def _equation(expression: Expr | None, trajectory: Trajectory) -> str:
    model: Any = trajectory.model
    what = FORWARD_DYNAMICS if expression is None else expression
    if expression is None and trajectory.system is not None and trajectory.system.n_rows:
        what, _ = forward_with_rows(None, False, False)
        text = explain(what, trajectory.system)
    else:
        text = explain(what, model)
    sweeps = []
    for i, sweep in enumerate(text.sweeps, 1):
        sweeps += [f"{i}. {sweep.heading}", *(f"      {line}" for line in sweep.equations)]
    rewrites = "".join(
        f"<tr><td>{safe(step.name)}</td>"
        f"<td class='dim'>{safe(step.source or '')}</td>"
        f"<td>{safe(str(step.before))}<br>= {safe(str(step.after))}</td></tr>"
        for step in text.rewrites
    )
    formulas = [f'<p class="formula">{safe(str(x))}</p>' for x in text.expressions]
    formulas += [
        f'<p class="formula"><span class="eq">=</span>{safe(str(x))}</p>'
        for x, given in zip(text.lowered, text.expressions, strict=True)
        if str(x) != str(given)
    ]
    steps = f"<details><summary>{len(text.rewrites)} rewrites, with their sources</summary>"
    steps += f"<table>{rewrites}</table></details>" if rewrites else ""
    return (
        '<section class="card wide"><h2>Operator expression, and the recursion compiled from it'
        f"<small>{safe(text.order)}, about {text.flops:,} flops for "
        f"{model.n_bodies} {'body' if model.n_bodies == 1 else 'bodies'}"
        f"</small></h2>{''.join(formulas)}<pre>{safe(chr(10).join(sweeps))}</pre>"
        f"{steps if rewrites else ''}</section>"
    )


def _checks(checks: Sequence[Check]) -> str:
    if not checks:
        return ""
    words = {True: ("pass", "✓ pass"), False: ("fail", "✗ FAIL"), None: ("skip", "– skip")}
    rows = "".join(
        f'<tr><td class="{words[c.passed][0]}">{words[c.passed][1]}</td>'
        f"<td>{safe(c.name)}</td><td>{safe(c.detail)}</td></tr>"
        for c in checks
    )
    return f'<section class="card wide"><h2>Checks</h2><table>{rows}</table></section>'


def _certificate(trajectory: Trajectory) -> str:
    """The certificate of the contacts, as a section."""
    if not trajectory.has_contacts:
        return ""
    proof = trajectory.contacts.certificate
    mark, word = "pass", "✓ every step is solved"
    if not proof.is_clean:
        mark, word = "fail", "✗ some steps are not solved"
    return (
        f'<section class="card wide"><h2>Contact certificate<small class="{mark}">{word}'
        f"</small></h2><pre>{safe(str(proof))}</pre></section>"
    )


def _tables(trajectory: Trajectory) -> str:
    model = trajectory.model
    rows = "".join(
        f"<tr><td>{safe(shown(name))}</td><td class='dim'>{kind}</td>"
        f'<td class="number">{_numbers(q)}</td><td class="number">{_numbers(v)}</td></tr>'
        for name, kind, q, v in joint_values(model, trajectory.q[-1], trajectory.v[-1])[:_MOST_ROWS]
    )
    q_unit, v_unit = unit_texts(model)
    head = "".join(
        f"<th{kind}>{word}</th>"
        for word, kind in (
            ("joint", ""),
            ("type", ""),
            (f"q ({q_unit})", ' class="number"'),
            (f"v ({v_unit})", ' class="number"'),
        )
    )
    out = (
        f'<div class="card"><h2>Final state<small>t = {trajectory.t[-1]:.6g} s</small></h2>'
        f'<div class="scroll"><table><tr>{head}</tr>{rows}</table></div></div>'
    )
    if trajectory.events:
        rows = "".join(
            f'<tr><td>{safe(shown(event.name))}</td><td class="number">{event.t:.9g} s</td></tr>'
            for event in trajectory.events[:_MOST_ROWS]
        )
        table = f'<div class="scroll"><table>{rows}</table></div>'
        out += f'<div class="card"><h2>Events</h2>{table}</div>'
    return f'<section class="two">{out}</section>'


def _numbers(values: Any) -> str:
    return " ".join(f"{0 if abs(x) < NOTHING else x:.6g}".replace("-", "−") for x in values)


def _footer() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        made = f"phipsi {version('phipsi')}"
    except PackageNotFoundError:
        made = "phipsi"
    return f"Made by {made}. This page is self-contained: it loads nothing when it is opened."


# ---- plots as data: energy and its change, coordinates, velocities, joint forces -----------------

_POINTS = 900
_MOST_SERIES = 60
_COLORS = (
    "#4cc9f0", "#ff8a3d", "#4ade80", "#f472b6", "#facc15", "#a78bfa", "#f87171", "#2dd4bf",
    "#c4b5fd", "#94a3b8",
)  # fmt: skip


def plots(trajectory: Trajectory) -> list[dict[str, Any]]:
    """The plots, each with its times, series and units."""
    model = trajectory.model
    energy = trajectory.energy
    kinetic = kinetic_energy(model, trajectory.q, trajectory.v)
    kept = picked(trajectory.t, energy - energy[0])
    parts = np.stack([kinetic, energy - kinetic, energy], axis=1)
    out = [
        _plot(
            "Energy", "of the mechanism", "J", trajectory.t[kept],
            ["kinetic", "potential", "total"], parts[kept],
        ),
        _change(trajectory, energy - energy[0], kept),
    ]  # fmt: skip
    smooth = trajectory
    if trajectory.t[-1] > trajectory.t[0]:
        smooth = trajectory.resample(np.linspace(trajectory.t[0], trajectory.t[-1], _POINTS))
    q_names, v_names = (entry_names(model, s) for s in (model.q_slices, model.v_slices))
    units = unit_texts(model)
    out.append(_plot("Generalized coordinates", "q", units[0], smooth.t, q_names, smooth.q))
    out.append(_plot("Generalized velocities", "v", units[1], smooth.t, v_names, smooth.v))
    if np.nan_to_num(trajectory.tau).any():
        title, note = "Joint torques and forces", "tau, of the controller"
        out.append(_plot(title, note, "N·m, N", smooth.t, v_names, smooth.tau))
    touching = trajectory.contacts if trajectory.has_contacts else None
    if touching is not None and touching.names and touching.has_forces:  # not stops and ropes alone
        out.append(_forces(touching))
    return [plot for plot in out if plot["series"]]


def _forces(record: ContactRecord) -> dict[str, Any]:
    """The size of the force of every pair that carries one."""
    names = list(dict.fromkeys(record.names))
    sizes = np.stack([np.linalg.norm(record[name].force, axis=-1) for name in names], axis=1)
    acts = np.flatnonzero(np.nan_to_num(sizes).max(axis=0) > 0)
    kept = picked(record.t, sizes.sum(axis=1))
    shown_names = [names[i] for i in acts]
    note = "between shapes that touch"
    return _plot("Contact forces", note, "N", record.t[kept], shown_names, sizes[kept][:, acts])


def _change(trajectory: Trajectory, change: Array, kept: Array) -> dict[str, Any]:
    """The energy against its start, with the work that explains it if it was recorded."""
    names, columns, note = ["change"], [change], "E(t) − E(0)"
    if WORK in trajectory.quadratures:
        names.append("work")
        columns.append(trajectory.work)
        note += f", equal to the work within {np.abs(change - trajectory.work).max():.1e} J"
        note = note if not trajectory.events else "E(t) − E(0)"
    values = np.stack(columns, axis=1)[kept]
    size = energy_size(trajectory)
    title, t = "Change of the total energy", trajectory.t[kept]
    plot = _plot(title, note, "J", t, names, values, zero=True, least=FEW_ROUNDINGS * size)
    return {**plot, "size": rounded(size)}


def picked(t: Array, values: Array) -> Array:
    """Indices of at most about 900 samples that keep the extremes of `values`."""
    n = len(t)
    if n <= _POINTS:
        return np.arange(n)
    edges = np.linspace(0, n, _POINTS // 3 + 1).astype(int)
    out = {0, n - 1}
    for first, last in zip(edges[:-1], edges[1:], strict=True):
        part = values[first:last]
        out |= {int(first), int(first + part.argmin()), int(first + part.argmax())}
    return np.array(sorted(out))


def _plot(
    title: str,
    note: str,
    unit: str,
    t: Array,
    names: list[str],
    columns: Array,
    zero: bool = False,
    least: float = NOTHING,
) -> dict[str, Any]:
    """A plot; with `zero` in its range; changes below `least` are rounding, and drawn flat."""
    if len(names) > _MOST_SERIES:
        note += f", the first {_MOST_SERIES} of {len(names)}"
    first = names[:_MOST_SERIES]
    series = [
        {
            "name": shown(name)[:200],
            "color": _color(i, len(first)),
            "values": _rounded(columns[:, i], 6),
        }
        for i, name in enumerate(first)
    ]
    return {
        "title": title, "note": note, "unit": unit, "zero": zero, "least": least,
        "t": _rounded(t, 9), "series": series,
    }  # fmt: skip


def _color(i: int, count: int) -> str:
    if count <= len(_COLORS):
        return _COLORS[i]
    r, g, b = colorsys.hls_to_rgb(0.55 + i / count, 0.64, 0.75)
    return f"#{round(255 * r):02x}{round(255 * g):02x}{round(255 * b):02x}"


def _rounded(values: Array, digits: int) -> list[float | None]:
    """Rounded to significant digits; what is not finite is left out of the line."""
    return [rounded(x, digits) if np.isfinite(x) else None for x in values.tolist()]
