"""The workbench: its answers by a second route, whom it answers, its limits, and its page."""

import http.client
import json
import socket
import struct
import time
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
from browser_pages import hear, until

import phipsi as pp
from phipsi.operators import parse
from phipsi.papers.workbench.answers import LONGEST_TEXT, Answers, shipped_robots
from phipsi.papers.workbench.server import Workbench

pytestmark = pytest.mark.usefixtures("machine_code_of_module")  # the workbench shows it


ANSWERS = Answers(shipped_robots())


def answer(kind: str, text: str = "", **more: Any) -> dict[str, Any]:
    found = ANSWERS({"kind": kind, "text": text, "robot": "seven_joint_arm", **more})
    json.dumps(found, allow_nan=False)  # plain data
    return found


# ---- answers -----------------------------------------------------------------------------------


def test_reading_names_spaces_and_structure():
    found = answer("read", "H phi M phi* H*")
    assert found["latex"] == pp.parse("H phi M phi* H*").text("latex")
    assert found["signature"] == "joint rates → joint efforts"
    assert [one["name"] for one in found["operators"]] == ["H", "M", "phi"]
    assert all(one["meaning"] and one["source"] for one in found["operators"])
    assert answer("read", "psi")["structure"].startswith("causal")
    claim = answer("read", "psi K H phi = phi - psi")
    assert claim["claim"] and claim["text"] == "ψ K H φ = φ − ψ"


@pytest.mark.parametrize("text", ["ℳ⁻¹ τ", "mass_matrix", "V", "logdet(mass_matrix)", "J ℳ⁻¹ J*"])
def test_values_agree_with_dense(text: str):
    found = answer("value", text)
    assert found["difference"] <= 1e-12 * found["scale"]
    assert found["scale"] > 0
    numbers = np.array(found["numbers"], dtype=float)
    q = pp.examples.seven_joint_arm().random_configuration(np.random.default_rng(0))
    if text == "mass_matrix":
        arm = pp.examples.seven_joint_arm()
        np.testing.assert_allclose(numbers, pp.mass_matrix(arm, q), rtol=1e-12)
        assert found["rows"] == list(arm.joint_names)


def test_a_value_that_is_off_is_said_to_be(monkeypatch: pytest.MonkeyPatch):
    from phipsi.papers.workbench import answers

    monkeypatch.setattr(
        answers, "evaluate_dense", lambda *a, **k: (1 + 1e-6) * pp.evaluate_dense(*a, **k)
    )
    found = answer("value", "mass_matrix")
    assert found["difference"] > 1e-7 * found["scale"]


def test_blocks_are_where_the_structure_says():
    pictures = {one["latex"]: one for one in answer("blocks", "psi")["pictures"]}
    cells = pictures[r"\psi"]["cells"]
    filled = np.array([[x is not None for x in row] for row in cells])
    np.testing.assert_array_equal(filled, np.triu(np.ones((7, 7), bool)))  # base first
    tree = answer("blocks", "phi", robot="random_tree")["pictures"][0]
    model = shipped_robots()["random_tree"]()
    filled = np.array([[x is not None for x in row] for row in tree["cells"]])
    for k in range(model.n_bodies):
        above = {k}
        while model.tree.parent[min(above)] >= 0:
            above.add(model.tree.parent[min(above)])
        assert set(np.flatnonzero(filled[:, k])) == above
    assert tree["rows"] == list(model.body_names)


def test_recursion_and_cost_are_those_of_explain():
    found, arm = answer("recursion", "mass_matrix^-1 tau"), pp.examples.seven_joint_arm()
    expected = pp.explain("mass_matrix^-1 tau", arm)
    assert found["flops"] == expected.flops
    assert [step["source"] for step in found["rewrites"]] == [s.source for s in expected.rewrites]
    assert [s["equations"] for s in found["sweeps"]] == [list(s.equations) for s in expected.sweeps]
    full = pp.explain("mass_matrix^-1 tau", arm, levels=True, meanings=True)
    assert [s["meanings"] for s in found["sweeps"]] == [list(s.meanings) for s in full.sweeps]
    assert [one["text"] for one in found["levels"]] == [str(x.operator) for x in full.levels]
    assert [one["lines"] for one in found["levels"]] == [[*x.lines()] for x in full.levels]
    cost = answer("cost", "mass_matrix^-1 tau")
    times = dict(map(tuple, cost["forms"][0]["points"]))
    step = times[32] - times[16]
    assert times[64] - times[32] == pytest.approx(2 * step, rel=1e-9)  # linear in the bodies
    plans = pp.explain("mass_matrix^-1 tau", arm, plan=True).plans
    assert [one["name"] for one in cost["plans"]] == [plan.name for plan in plans]


def test_differentiation_gives_text_that_is_read_again():
    for text in ("mass_matrix", "V", "logdet(mass_matrix)"):
        found = answer("differentiate", text, wrt="q")
        x = pp.parse(text)
        wanted = pp.diff(x, "q", along="dq") if found["along"] else pp.diff(x, "q")
        assert pp.parse(found["text"]) is wanted


def test_proofs_and_identities():
    assert answer("prove", "psi K H phi = phi - psi")["holds"] is True
    wrong = answer("prove", "psi K H phi = phi + psi")
    assert wrong["holds"] is False and wrong["here"] is False
    assert "ModelBuilder" in wrong["counterexample"]
    assert answer("prove", "H G = I")["holds_if"] == "Jr = 0"
    derived = answer("derive", "J mass_matrix^-1 J* = B* Omega B")
    assert derived["complete"] and "definition of J" in derived["steps"][0]["why"]
    assert pp.parse(derived["steps"][-1]["text"]) is pp.parse("B* Omega B")
    assert not answer("derive", "psi K H phi = phi + psi")["complete"]
    listed = answer("identities")["identities"]
    assert len(listed) == len(pp.identities())


def test_generated_code():
    found = answer("code", "mass_matrix^-1 tau", robot="planar_arm(2)")
    assert "define" in found["text"] and found["lines"] > 100


# ---- nonsense ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, words",
    [
        ("phi M H", "cannot compose"),
        ("phi +", "an operator is missing"),
        ("wobble", "not an operator"),
        ("H φ = φ", "between the same spaces"),
        ("φ = ψ = φ", "one equals sign"),
        ("__import__('os').system('id')", "not"),
        ("φ" * (LONGEST_TEXT + 1), "characters"),
    ],
)
def test_nonsense_is_explained(text: str, words: str):
    kind = "prove" if "=" in text and "import" not in text else "read"
    found = answer(kind, text)
    assert words in found["error"]


@pytest.mark.parametrize(
    "request_",
    [
        {"kind": "read", "text": 5},
        {"kind": "value", "text": "V", "robot": "../../etc/passwd"},
        {"kind": "value", "text": "V", "seed": -1},
        {"kind": "value", "text": "V", "seed": "0"},
        {"kind": "__call__", "text": "V"},
        {"kind": "differentiate", "text": "V", "wrt": "nothing"},
        {},
    ],
)
def test_bad_questions_are_answered_with_an_error(request_: dict[str, Any]):
    assert ANSWERS(request_)["error"]


@pytest.mark.parametrize(
    ("paper", "text", "same"),
    [
        ("MM", r"(\mathcal{I} - \Psi GH)\Phi \tag{44}", "(I − ψ E_φ G H) (φ − I)"),
        ("88-11", "H Ψ", "H ψ shift"),
        ("MC", r"M\ddot{\theta}.", "ℳ v̇"),
    ],
)
def test_a_question_in_the_letters_of_a_paper(paper: str, text: str, same: str):
    request = {"robot": "planar_arm(2)", "notation": paper}
    ours = ANSWERS({"kind": "read", "text": same, **request, "notation": ""})
    assert ANSWERS({"kind": "read", "text": text, **request})["latex"] == ours["latex"]
    value = ANSWERS({"kind": "value", "text": text, **request})
    assert value["difference"] <= 1e-12 * max(1.0, value["scale"])
    assert "error" in ANSWERS({"kind": "read", "text": text, **request, "notation": "SOA"})


def test_claims_in_the_letters_of_a_paper():
    request = {"robot": "planar_arm(2)", "notation": "MC"}
    claim = ANSWERS({"kind": "prove", "text": r"M = H\phi M\phi^* H^*. \quad (3)", **request})
    assert claim["holds"] and claim["here"] and claim["reason"].startswith("as MC means it: Jr = 0")
    assert not ANSWERS({"kind": "prove", "text": r"M = 2H\phi M\phi^* H^*", **request})["holds"]
    read = ANSWERS({"kind": "read", "text": r"M = H\phi M\phi^* H^*", **request})
    assert read["claim"] and read["text"] == "ℳ = H φ M φ* H*"
    found = ANSWERS({"kind": "derive", "text": "ℳ = (I + H φ K) D (I + H φ K)*", **request})
    assert found["complete"]


def test_the_letters_of_a_paper_have_their_meaning():
    letters = ANSWERS({"kind": "letters", "text": "", "notation": "MM"})["letters"]
    assert {"letter": "Φ", "meaning": "φ − I"} in letters
    for one in letters:
        assert parse(one["letter"], "MM") is parse(one["meaning"])
    assert ANSWERS({"kind": "letters", "text": "", "notation": ""})["letters"] == []
    assert ANSWERS({"kind": "robots", "text": ""})["notations"] == [
        "SOA",
        "MM",
        "MC",
        "88-11",
        "88-11 II",
        "MS",
    ]
    assert (
        "not one of the papers"
        in ANSWERS({"kind": "letters", "text": "", "notation": "X"})["error"]
    )


def test_custom_operators_of_the_page():
    lines = "C : rates -> efforts = 0.5\n\nw : rates = [1, -2]\nE : rates -> efforts = C + 2 C"
    lines += "\nh : scalar = 3"
    request = {"robot": "planar_arm(2)", "operators": lines}
    value = ANSWERS({"kind": "value", "text": "C w + E w", **request})
    assert value["numbers"] == [2.0, -4.0] and value["difference"] == 0
    assert ANSWERS({"kind": "prove", "text": "E v = 3 C v", **request})["here"]
    assert not ANSWERS({"kind": "prove", "text": "E v = 4 C v", **request})["here"]
    assert "error" in ANSWERS({"kind": "value", "text": "C w", "robot": "planar_arm(2)"})


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("C", "write a name, its spaces and its value"),
        ("C : rates -> moments = 1", "'moments' is not a space"),
        ("C : rates -> efforts = 1 +", "is not a number or an array"),
        ("C : rates -> efforts = __import__('os')", "'__import__' is not an operator"),
        ("C : rates -> efforts = [[1], [2, 3]]", "C : rates -> efforts"),
        ("phi : rates -> efforts = 1", "phi"),
        ("C : rates = 1\n" * 30, "the workbench reads 20"),
        ("C : rates = 1 " + " " * 3000, "at most 2000"),
        (7, "are strings"),
    ],
)
def test_custom_operators_that_are_none(lines: Any, said: str):
    answer = ANSWERS({"kind": "read", "text": "C v", "operators": lines})
    assert said in answer["error"]


# ---- whom it answers -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bench() -> Iterator[Workbench]:
    with Workbench() as one:
        yield one


def ask(
    bench: Workbench,
    method: str = "POST",
    path: str | None = None,
    body: bytes = b'{"kind": "read", "text": "phi"}',
    **headers: str,
) -> tuple[int, bytes]:
    to = http.client.HTTPConnection("127.0.0.1", bench.port, timeout=30)
    path = f"/{bench.token}/ask" if path is None else path
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    named = {"Content-Type": "application/json", **named}
    to.request(method, path, body if method == "POST" else None, named)
    found = to.getresponse()
    out = found.status, found.read()
    if found.status == 200:
        assert "default-src 'none'" in (found.getheader("Content-Security-Policy") or "")
    to.close()
    return out


def test_a_question_with_token_and_host_is_answered(bench: Workbench):
    status, body = ask(bench)
    assert status == 200 and json.loads(body)["text"] == "φ"
    assert ask(bench, Host=f"localhost:{bench.port}")[0] == 200
    assert ask(bench, Origin=f"http://127.0.0.1:{bench.port}")[0] == 200


def test_others_are_not(bench: Workbench):
    token, other = bench.token, bench.token.swapcase()[::-1]
    nothing = b'{"kind": "read", "text": "phi"}'
    for status, changes in [
        (421, {"Host": "evil.example"}),
        (421, {"Host": "127.0.0.1"}),  # another port
        (403, {"Origin": "http://evil.example"}),
        (403, {"Origin": "null"}),
        (403, {"path": "/ask"}),
        (403, {"path": f"/{other}/ask"}),
        (403, {"path": f"/{token}"}),
        (404, {"path": f"/{token}/other"}),
        (404, {"path": f"/{token}/../server.py", "method": "GET"}),
        (404, {"path": f"/{token}/katex/../../server.py", "method": "GET"}),
        (404, {"path": f"/{token}/%2e%2e/server.py", "method": "GET"}),
        (415, {"Content_Type": "text/plain"}),  # what a foreign page may send unasked
        (400, {"body": b"[1]"}),
        (400, {"body": b"{"}),
        (400, {"body": b"[" * 50_000}),
        (413, {"body": b" " * 70_000}),
        (501, {"method": "PUT"}),
    ]:
        found, body = ask(bench, **{"body": nothing, **changes})  # type: ignore[arg-type]
        assert (found, changes) == (status, changes)
        assert b"\xcf\x86" not in body and token.encode() not in body


def test_no_request_prints_a_traceback(bench: Workbench, capfd: pytest.CaptureFixture[str]):
    """Lines that are no addresses, connections that break off, bodies that never come."""
    host = f"Host: 127.0.0.1:{bench.port}"
    for line, status in [
        ("GET http://[ HTTP/1.1", b"400"),
        ("GET http://[::1/x HTTP/1.1", b"400"),
        ("GET //[ HTTP/1.1", b"40"),
        ("POST http://]/ask HTTP/1.1", b"40"),
        (f"GET /{bench.token}/\x80\xff HTTP/1.1", b"404"),
        ("GET /%00%ff HTTP/1.1", b"403"),
        ("OPTIONS * HTTP/1.1", b"501"),
        ("nonsense", b""),
    ]:
        with socket.create_connection(("127.0.0.1", bench.port), timeout=5) as to:
            to.sendall(f"{line}\r\n{host}\r\n\r\n".encode("latin-1"))
            assert status in to.recv(100).splitlines()[0], line
    for start in (b"GET", f"POST /{bench.token}/ask HTTP/1.1\r\n{host}\r\n".encode()):
        with socket.create_connection(("127.0.0.1", bench.port)) as to:
            to.sendall(start + b"Content-Type: application/json\r\nContent-Length: 99\r\n\r\nx")
            to.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # reset
    time.sleep(0.3)
    assert capfd.readouterr().err == ""
    assert ask(bench)[0] == 200


def test_the_token_is_in_no_argument_of_the_browser(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, browser: Any
):
    """All users of a machine see arguments; the file that leads to the page is of one user."""
    monkeypatch.setenv("HOME", str(tmp_path))
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    with Workbench(expression="H φ") as bench:
        bench.open_browser()
        (address,) = opened
        assert bench.token not in address and address.startswith("file:///")
        file = Path(unquote(urlsplit(address).path))
        assert bench.token in file.read_text()
        assert file.stat().st_mode & 0o77 == 0 and file.parent.stat().st_mode & 0o77 == 0
        page = browser.new_page()
        page.goto(address)
        page.wait_for_url(f"**/{bench.token}/*")
        assert "#x=" in page.url
        page.close()
    assert not file.parent.exists()  # gone with the server
    with pp.show(pp.examples.planar_arm(1)) as viewer:
        assert viewer.address.split("/")[3] not in opened[1] and opened[1].startswith("file:///")


def test_an_answer_has_limits():
    slow = {"kind": "value", "text": "phi", "robot": "humanoid"}
    with Workbench(seconds=0.05) as one:
        assert "no answer within 0.05 s" in one.ask(slow)["error"]
    with Workbench(memory=1_000_000) as one:
        assert "error" in one.ask(slow)


def test_a_robot_of_ones_own_comes_first():
    own = pp.examples.planar_arm(3)
    with Workbench(own) as one:
        names = one.ask({"kind": "robots"})["robots"]
        assert names[0] == "robot"
        found = one.ask({"kind": "value", "text": "mass_matrix", "seed": 0})
    q = own.random_configuration(np.random.default_rng(0))
    np.testing.assert_allclose(found["numbers"], pp.mass_matrix(own, q), rtol=1e-12)


def test_a_port_in_use_is_an_error(bench: Workbench):
    with pytest.raises(pp.errors.InputError, match="--port 0"):
        Workbench(port=bench.port)


# ---- in a browser ------------------------------------------------------------------------------


@pytest.fixture
def tab(browser: Any, bench: Workbench) -> Iterator[Any]:
    one = browser.new_page(viewport={"width": 1300, "height": 900})
    one.told, one.asked = [], []
    hear(one, one.told)
    one.on("dialog", lambda dialog: one.told.append("dialog"))
    one.on("request", lambda request: one.asked.append(request.url))
    yield one
    host = f"127.0.0.1:{bench.port}"
    assert not one.told
    assert all(urlsplit(url).netloc == host or url.startswith("data:") for url in one.asked)
    one.close()


def typed(tab: Any, text: str) -> None:
    """Types an expression, and waits for its answer or its error."""
    tab.evaluate("delete document.body.dataset.turn")
    tab.fill("#text", text)
    tab.press("#text", "Enter")
    until(tab, "'turn' in document.body.dataset || !document.getElementById('error').hidden")


def test_an_expression_is_answered(tab: Any, bench: Workbench):
    tab.goto(bench.address)
    until(tab, "'turn' in document.body.dataset")
    start = time.perf_counter()
    typed(tab, "mass_matrix^-1 tau")
    print(f"answered in {time.perf_counter() - start:.2f} s")
    assert "innovations factorization" in tab.inner_text("#recursion")
    assert "agrees with dense" in tab.inner_text("#value")
    assert tab.locator("#recursion .katex").count() > 4
    assert tab.locator("#recursion pre").count() == 0  # nothing that could not be typeset
    assert tab.locator("#blocks svg .cell").count() > 40
    assert tab.locator("#cost polyline").count() > 0
    tab.click("#show-code")
    until(tab, "document.getElementById('code').innerText.includes('define')")
    tab.select_option("#wrt", "tau")
    tab.evaluate("delete document.body.dataset.turn")
    tab.click("#differentiate")
    until(tab, "'turn' in document.body.dataset")
    assert tab.input_value("#text") == "ℳ⁻¹"


def test_claims_are_proved_and_nonsense_is_explained(tab: Any, bench: Workbench):
    tab.goto(bench.address)
    until(tab, "'turn' in document.body.dataset")
    typed(tab, "psi K H phi = phi - psi")
    assert "proved" in tab.inner_text("#verdict")
    tab.evaluate("delete document.body.dataset.turn")
    tab.click("#derive")
    until(tab, "'turn' in document.body.dataset")
    assert "Derivation" in tab.inner_text("#verdict")
    assert tab.locator("#verdict .katex").count() > 1
    typed(tab, "psi K H phi = phi + psi")
    assert "false" in tab.inner_text("#verdict")
    assert "ModelBuilder" in tab.inner_text("#verdict")
    typed(tab, "phi M H")
    assert "cannot compose" in tab.inner_text("#error")
    assert tab.is_hidden("#value") and tab.is_hidden("#read")
    tab.fill("#search", "Lemma 0.4")
    until(tab, "document.querySelectorAll('#list li').length < 20")
    assert "whiten" in tab.inner_text("#list")
    tab.evaluate("delete document.body.dataset.turn")
    tab.locator("#list button").first.click()
    until(tab, "'turn' in document.body.dataset")
    assert "proved" in tab.inner_text("#verdict")


def test_a_link_holds_the_state(tab: Any, bench: Workbench):
    tab.goto(bench.address)
    until(tab, "'turn' in document.body.dataset")
    tab.select_option("#robot", "planar_arm(2)")
    typed(tab, "H φ M φ* H*")
    link = tab.url
    tab.goto("about:blank")
    tab.goto(link)
    until(tab, "'turn' in document.body.dataset")
    assert tab.input_value("#text") == "H φ M φ* H*"
    assert tab.input_value("#robot") == "planar_arm(2)"
    assert "link1" in tab.inner_html("#blocks") and "2 × 2" in tab.inner_text("#value")


def test_the_letters_of_a_paper_and_custom_operators_on_the_page(tab: Any, bench: Workbench):
    tab.goto(bench.address)
    until(tab, "'turn' in document.body.dataset")
    tab.select_option("#robot", "planar_arm(2)")
    tab.select_option("#notation", "MM")
    until(tab, "[...document.querySelectorAll('#keys button')].some(b => b.textContent === 'Φ')")
    typed(tab, r"H\phi M\phi^* H^* = (\mathcal{I} + H\Phi G)D(\mathcal{I} + H\Phi G)^*. \quad (43)")
    assert "as MM means it: Jr = 0" in tab.inner_text("#verdict")
    tab.click("#own summary")
    tab.fill("#operators", "C : rates -> efforts = 0.5")
    typed(tab, "C + H Φ G C")
    assert "agrees with dense" in tab.inner_text("#value")
    link = tab.url
    tab.goto("about:blank")
    tab.goto(link)
    until(tab, "'turn' in document.body.dataset")
    assert tab.input_value("#notation") == "MM"
    assert tab.input_value("#operators") == "C : rates -> efforts = 0.5"
    assert tab.is_visible("#operators") and "agrees with dense" in tab.inner_text("#value")
    tab.select_option("#notation", "SOA")
    until(tab, "!document.getElementById('error').hidden")
    assert "letter of papers" in tab.inner_text("#error")
    tab.fill("#operators", "<b>C</b> : rates = 1")
    typed(tab, "C")
    assert "write a name" in tab.inner_text("#error") and tab.locator("#error pre *").count() == 0


def test_hostile_text_does_nothing(tab: Any, bench: Workbench):
    tab.goto(bench.address)
    until(tab, "'turn' in document.body.dataset")
    for text in (
        "<img src=x onerror=alert(1)>",
        "</textarea><script>alert(1)</script>",
        r"\href{javascript:alert(1)}{\phi}",
        r"total[<b>1</b>, 2, 3] M V",
    ):
        typed(tab, text)
        assert tab.is_visible("#error")
        assert tab.locator("#error pre *").count() == 0  # text, not markup
    assert tab.locator("img, a[href^=javascript]").count() == 0


def test_names_of_a_hostile_robot_do_nothing(browser: Any):
    builder = pp.ModelBuilder()
    builder.add_body(
        "<img src=x onerror=alert(1)>",
        parent="world",
        joint=pp.joints.Revolute((0, 0, 1)),
        joint_name="</td><script>alert(1)</script>",
        inertia=pp.SpatialInertia(mass=1, com_B=(0.1, 0, 0), moment_about_com_B=(0.1, 0.1, 0.1)),
    )
    told: list[str] = []
    with Workbench(builder.build(), expression="ℳ v") as one:
        page = browser.new_page()
        page.on("dialog", lambda dialog: told.append("dialog"))
        page.on("pageerror", lambda error: told.append(str(error)))
        page.goto(one.address)
        until(page, "'turn' in document.body.dataset")
        assert page.input_value("#text") == "ℳ v"
        assert "<script>" in page.inner_text("#value")
        assert page.locator("img").count() == 0
        page.close()
    assert not told
