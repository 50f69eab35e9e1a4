"""The page of a Monte Carlo study: samples, results, bands over time, sensitivity, failures."""

from __future__ import annotations

import html
import io
import os
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from phipsi.errors import InputError, PhipsiWarning, shown
from phipsi.pages.html_file import file_words, page_html
from phipsi.simulation import as_label
from phipsi.studies import StudyResults, columns_of
from phipsi.support import atomic_write_text, checked_page, import_optional

_MOST = 24
"""Entries that are drawn."""


def study_report(results: StudyResults, path: str | os.PathLike[str]) -> Path:
    """Write the results of a study as one self-contained HTML page.

    >>> import tempfile, pathlib, phipsi as pp
    >>> from phipsi.pages.study_page import study_report
    >>> from scipy.stats import norm
    >>> study = pp.Study(pp.Simulator(pp.examples.planar_arm(1)), {"v": norm([1.0], 0.1)},
    ...                  steps=10, runs=50)
    >>> study_report(study.run(), pathlib.Path(tempfile.mkdtemp()) / "study.html").name
    'study.html'
    """
    target = checked_page(path)
    if not results.names or not len(results):
        raise InputError(
            "the study has no finished runs yet, so there is no report. Run it:  study.run()"
        )
    return atomic_write_text(target, _page(results, target))


def _page(results: StudyResults, path: Path) -> str:
    d = results.definition
    mechanism = shown(d["mechanism"], 180)
    nameless = re.fullmatch(r"\d+ bodies", mechanism)  # it has no name of its own
    title = file_words(path) if nameless else f"Study of {mechanism}"
    good = int((results["status"] == 0).sum())
    head = (
        f"{mechanism + '; ' if nameless else ''}"
        f"{len(results)} of {results.count} runs, {good} of them succeeded; "
        f"{d['steps']} steps of {d['dt']:g} s, {shown(d['integrator'], 200)}; "
        f"sampling {shown(d['sampling'], 200)}, seed {d['seed']}"
    )
    with warnings.catch_warnings():  # the page says itself that runs failed
        warnings.simplefilter("ignore", PhipsiWarning)
        parts = [
            _estimates(results) if good else "",
            _histograms(results, "sample.", "Sampled inputs") if good else "",
            _histograms(results, "", "Results") if good else "",
            _bands(results) if good else "",
            _influence(results) if good else "",
            _failures(results),
        ]
    body = "\n".join(f'<section class="card wide">{part}</section>' for part in parts if part)
    return page_html(title, {"subtitle": head, "body": body})


def _safe(text: object) -> str:
    return html.escape(shown(text, 200))


def _numbers(results: StudyResults, names: list[str]) -> dict[str, Any]:
    """Single numbers of the runs that succeeded, by label."""
    good = results["status"] == 0
    out = columns_of({name: results[name][good] for name in names})
    return dict(list(out.items())[:_MOST])


def _estimates(results: StudyResults) -> str:
    rows = []
    for label, x in _numbers(results, results.metrics).items():
        # a run that failed counts as False; it has no number
        shown_numbers = [float(np.sum(x)) / len(results) if x.dtype == bool else float(np.mean(x))]
        if x.dtype != bool:
            shown_numbers += np.percentile(x, (5, 50, 95)).tolist()
        cells = "".join(f'<td class="number">{v:.4g}</td>' for v in shown_numbers)
        rows.append(f"<tr><td>{_safe(label)}</td>{cells}</tr>")
    if not rows:
        return ""
    numbers = "".join(f'<th class="number">{x}' for x in ("mean", "5 %", "median", "95 %"))
    head = f"<tr><th>metric{numbers}</tr>"
    failed = results.failed.size
    text = (
        f"<p>{failed} of {len(results)} runs failed. They count as False in the mean of a boolean "
        "metric, and are excluded from all other numbers.</p>"
    )
    return f"<h2>Metrics</h2>{text if failed else ''}<table>{head}{''.join(rows)}</table>"


def _histograms(results: StudyResults, prefix: str, title: str) -> str:
    names = [
        n for n in results.names
        if (n.startswith(prefix) if prefix else n in results.metrics or _is_final(results, n))
    ]  # fmt: skip
    found = _numbers(results, names)
    figures = [_histogram(label.removeprefix("sample."), x) for label, x in found.items()]
    return f"<h2>{title}</h2>{''.join(figures)}" if figures else ""


def _is_final(results: StudyResults, name: str) -> bool:
    return name in {f"{record}.final" for record in results.definition["record"]}


def _histogram(label: str, x: Any) -> str:
    figure, axes = _axes()
    finite = x[np.isfinite(x.astype(float))].astype(float)
    axes.hist(finite, bins=min(40, max(5, int(np.sqrt(len(finite))))), color="#4477aa")
    axes.set_xlabel(as_label(shown(label, 60)))
    return _svg(figure)


def _bands(results: StudyResults) -> str:
    figures = []
    d = results.definition
    for name in d["record"]:
        if name not in results.names:
            continue
        low, middle, high = results.bands(name)
        t = np.arange(len(middle)) * d["record_every"] * d["dt"]
        flat = [x.reshape(len(t), -1) for x in (low, middle, high)]
        for i in range(min(flat[0].shape[1], _MOST)):
            figure, axes = _axes()
            axes.fill_between(t, flat[0][:, i], flat[2][:, i], color="#4477aa", alpha=0.3)
            axes.plot(t, flat[1][:, i], color="#4477aa")
            axes.set_xlabel("t, s")
            axes.set_ylabel(as_label(f"{shown(name, 60)}[{i}]"))
            figures.append(_svg(figure))
    text = "median, and the band that contains 90 % of the runs"
    return f"<h2>Over time</h2><p>{text}</p>{''.join(figures)}" if figures else ""


def _influence(results: StudyResults) -> str:
    rows = []
    for label, y in _numbers(results, results.metrics).items():
        for name, x in results.correlations(_of_all(results, label, y)).items():
            if np.isfinite(x):
                rows.append((abs(x), f"<tr><td>{_safe(label)}<td>{_safe(name)}"
                                     f'<td class="number">{x:+.2f}</tr>'))  # fmt: skip
    if not rows:
        return ""
    rows.sort(key=lambda row: -row[0])
    listed = "".join(text for _, text in rows[:40])
    head = '<tr><th>metric<th>sample<th class="number">rank correlation</tr>'
    return f"<h2>Sensitivity</h2><table>{head}{listed}</table>"


def _of_all(results: StudyResults, label: str, y: Any) -> Any:
    """Numbers of the runs that succeeded as an array of all runs."""
    out = np.zeros(len(results))
    out[results["status"] == 0] = y
    return out


def _failures(results: StudyResults) -> str:
    failed = results.failed[:_MOST].tolist()
    lines = [f"<li>run {i}: {_safe(results.reason(i))}" for i in failed]
    lines += [
        f"<li>block {i} was quarantined: {_safe(why.splitlines()[0])}"
        for i, why in sorted(results.quarantined.items())
    ]
    return f'<h2>Failures</h2><ul class="bad">{"".join(lines)}</ul>' if lines else ""


def _axes() -> tuple[Any, Any]:
    matplotlib: Any = import_optional(
        "matplotlib.figure", "the report of a study", "'phipsi[plot]'"
    )
    figure = matplotlib.Figure(figsize=(3.6, 2.4), layout="constrained")
    return figure, figure.subplots()


def _svg(figure: Any) -> str:
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    return f"<figure>{text[text.index('<svg') :]}</figure>"
