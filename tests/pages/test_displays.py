"""Objects in notebooks: HTML that is small, escaped, without scripts and requests."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from known_systems import four_bar

import phipsi as pp
from phipsi.pages.displays import html_of

HOSTILE = '"><script>alert(1)</script><img src="https://evil.example/x" onerror=alert(2)>'
_ALLOWED = {"div", "b", "pre", "code", "svg", "g", "path", "circle", "rect", "polyline", "text",
            "title", "table", "tr", "td", "tbody"}  # fmt: skip


class Reader(HTMLParser):
    """Tags, attributes and texts of HTML."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, Any]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, Any]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def checked(thing: Any) -> str:
    """The text of an object's HTML, which has nothing that acts or asks."""
    html = thing._repr_html_()
    found = Reader(html)
    assert not found.open and found.tags <= _ALLOWED
    assert not {x for x in found.attributes if x.startswith("on") or x in ("href", "src")}
    assert len(html) < 60_000
    return "".join(found.texts)


def hostile() -> pp.Model:
    builder = pp.ModelBuilder()
    joint = pp.joints.Revolute((0, 1, 0))
    inertia = pp.SpatialInertia(2.0, (0, 0, 0.5), np.diag([0.1, 0.1, 0.01]))
    builder.add_body(HOSTILE, joint=joint, joint_name=f"joint {HOSTILE}", inertia=inertia)
    return builder.build()


def test_a_model_has_a_tree_and_a_picture():
    text = checked(pp.examples.seven_joint_arm())
    assert "nq = 7" in text and "elbow_pitch: revolute, 1 dof" in text
    html = pp.examples.seven_joint_arm()._repr_html_()
    assert html.count("<circle") == 7 and html.count("<path") == 8
    assert "<script>alert(1)" in checked(hostile())
    system = checked(four_bar())
    assert "5 constraint rows: pin" in system
    assert four_bar()._repr_html_().count("<circle") == 3 + 2
    empty = pp.ModelBuilder().build()
    assert "0 bodies" in checked(empty)


def test_a_large_model_stays_small():
    assert "…" in checked(pp.examples.planar_arm(300))


def test_a_run_has_plots():
    run = pp.simulate(hostile(), [0.3], [0.0], 1.0)
    text = checked(run)
    assert "samples" in text and "energy, J" in text and HOSTILE in text
    still = pp.simulate(pp.examples.planar_arm(1), [-np.pi / 2], [0.0], 0.5)
    assert "q, rad: " in checked(still)


def test_programs_and_matrices():
    arm = pp.examples.planar_arm(2)
    text = checked(pp.compile("mass_matrix", arm))
    assert "recursion" in text and "flops" in text and "q (2), x (2)" in text
    linear = checked(pp.linearize(arm, [-np.pi / 2, 0.0], [0.0, 0.0], [0.0, 0.0]))
    assert "4 states, 2 inputs" in linear and "poles: " in linear
    many = pp.linearize(pp.examples.planar_arm(8), np.zeros(8), np.zeros(8), np.zeros(8))
    assert "…" in checked(many)
    pose = pp.Pose(translation=(1, 2, 3))
    assert "2 m" in checked(pose)
    inertia = pp.SpatialInertia.sphere(0.1, mass=2.0)
    assert "2 kg" in checked(inertia) and "0.008" in checked(inertia)


def test_anything_else_is_its_repr():
    assert html_of("<b>") == "<code>&#x27;&lt;b&gt;&#x27;</code>"


def test_the_reader_sees_what_must_not_be_there():
    class Bad:
        def __init__(self, html: str) -> None:
            self.html = html

        def _repr_html_(self) -> str:
            return self.html

    for bad in (
        "<script>x</script>",
        "<div onclick='x'></div>",
        "<svg><g></svg>",
        "<code src='http://x'></code>",
    ):
        with pytest.raises(AssertionError):
            checked(Bad(bad))
