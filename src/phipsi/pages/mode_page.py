"""The page of small vibrations: frequencies in a list, and the mode that is chosen in motion."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms import motions
from phipsi.core.model import FlexibleInertia, Model
from phipsi.errors import InputError, counted
from phipsi.flexible import Vibrations, energy_shares
from phipsi.pages.deformed_shapes import drawn_shape, modal_slice
from phipsi.pages.html_file import packed, packed_poses, page_html, safe
from phipsi.pages.scene import scene_description
from phipsi.support import atomic_write_text, checked_page

Array = NDArray[Any]
_SAMPLES = np.linspace(-3.0, 3.0, 25)  # amplitudes at which poses are computed; slider: 0 to 3
_SIZE = 0.07  # how far, of the size of the mechanism, a mode moves at amplitude 1
_MOST_NUMBERS = 700_000  # in all poses together
_SMALL = 1e-7  # of a step that shows how far a mode moves
_CONTROLS = """
    <button id="play" aria-label="play or pause">▶</button>
    <button id="back" aria-label="previous mode">‹</button>
    <button id="forth" aria-label="next mode">›</button>
    <output id="clock"></output>
    <label for="amplitude">amplitude</label>
    <input id="amplitude" type="range" min="0" max="3" step="0.01" value="1">
    <select id="speed" aria-label="cycles per second"><option value="0.25">¼ Hz</option>
      <option value="0.5" selected>½ Hz</option><option value="1">1 Hz</option>
      <option value="2">2 Hz</option></select>
"""


def mode_page(found: Vibrations, path: str | os.PathLike[str] | None, title: str) -> Path | str:
    """The page that `Vibrations.to_html` writes."""
    if not found.shapes.shape[1]:
        raise InputError(
            "the mechanism has no vibration modes: joints and constraints lock all motion"
        )
    model = found.model
    name = title or model.name or counted(model.n_bodies, "body")
    shown = min(
        found.shapes.shape[1], max(1, _MOST_NUMBERS // (7 * len(_SAMPLES) * model.n_bodies))
    )
    text = page_html(
        name,
        {
            "subtitle": f"{counted(len(found.frequencies), 'mode')} of small vibrations",
            "data": _data(found, shown),
            "controls": _CONTROLS,
            "body": _table(found, shown),
            "footer": "Modes are animated slowly, as sines; the table lists the true frequencies.",
            "scripts": ["modes.js"],
        },
    )
    return text if path is None else atomic_write_text(checked_page(path), text)


def _data(found: Vibrations, shown: int) -> dict[str, Any]:
    """The scene, and of every mode the poses at some amplitudes and the modal coordinates."""
    model, q = found.model, found.q
    size = scene_description(model, q=q)["radius"]
    scales = np.array([_SIZE * size / _largest(model, q, x) for x in found.shapes.T[:shown]])
    steps = scales * found.shapes[:, :shown]  # a column for amplitude 1
    every = np.broadcast_to(q, (shown, len(_SAMPLES), model.nq))
    moved = model.integrate(every, steps.T[:, None, :] * _SAMPLES[:, None])
    X = motions.poses(model, moved)
    scene = scene_description(model, q=moved[:, np.abs(_SAMPLES) <= 1].reshape(-1, model.nq))
    modal = [modal_slice(model, x["body"]) for x in scene["flexible"]]
    return {
        "scene": scene,
        "amplitudes": _SAMPLES.tolist(),
        "vibrations": [
            {
                "frequency": float(w) if np.isfinite(w) else None,
                "poses": packed_poses(X[i]),
                "modal": [packed(moved[i][:, at]) for at in modal],
            }
            for i, w in enumerate(found.frequencies[:shown])
        ],
    }


def _largest(model: Model, q: Array, x: Array) -> float:
    """How far a mode of unit amplitude moves what is drawn, to first order, m."""
    step = _SMALL / max(float(np.abs(x).max()), 1e-300)
    near = model.integrate(np.stack([q, q]), np.stack([-step * x, step * x]))
    back, forth = (_places(model, at) for at in near)
    return max(float(np.linalg.norm(forth - back, axis=1).max()) / (2 * step), 1e-300)


def _places(model: Model, q: Array) -> Array:
    """Points (m, 3) that tell how far the bodies move: around mass centres, and nodes that bend."""
    X = motions.poses(model, q)
    out: list[Array] = []
    for k, (inertia, flexible) in enumerate(zip(model.inertias, model.flexible, strict=True)):
        wide = np.sqrt(np.trace(inertia.moment_about_com_B) / max(2 * inertia.mass, 1e-300))
        around = np.vstack([np.zeros(3), inertia.com_B + wide * np.vstack([np.eye(3), -np.eye(3)])])
        shape = drawn_shape(flexible) if isinstance(flexible, FlexibleInertia) else None
        local = around if shape is None else shape.deformed(q[modal_slice(model, k)])
        out.append(local @ X[k, :3, :3].T + X[k, :3, 3])
    return np.concatenate(out)


def _table(found: Vibrations, shown: int) -> str:
    """Frequencies, and in which joints and bodies the kinetic energy of each mode is."""
    rows = "".join(
        f'<tr data-mode="{i}" tabindex="0"><td class="number">{i + 1}</td>'
        f'<td class="number">{_hertz(w)}</td><td class="number">{_number(w)}</td>'
        f"<td>{safe(where)}</td></tr>"
        for i, (w, where) in enumerate(
            zip(found.frequencies[:shown], energy_shares(found), strict=False)
        )
    )
    rest = len(found.frequencies) - shown
    more = f"<p>{rest} higher modes are not on this page.</p>" if rest > 0 else ""
    return (
        '<section class="card wide"><h2>Modes</h2><table id="modes">'
        '<tr><th class="number">mode</th>'
        '<th class="number">Hz</th><th class="number">rad/s</th><th>kinetic energy in</th></tr>'
        f"{rows}</table>{more}</section>"
    )


def _hertz(w: float) -> str:
    return _number(w / (2 * np.pi))


def _number(w: float) -> str:
    return f"{w:.4g}" if np.isfinite(w) else "unstable"
