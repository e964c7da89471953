"""The server of the live page: whom it answers, what, and in which order."""

import asyncio
import json
import math
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from anchorflow.config.errors import InputError
from anchorflow.explore.task import OpenedTask
from anchorflow.one_prompt.asked import Cut
from opened_tasks import QUERY, TEXTS, prepared, running

pytest.importorskip("uvicorn")  # the extra "explore"

from anchorflow.explore.server import MOST_BYTES, Explorer, SupersededError, _Stop, listen

TOKEN, ONCE = "secret", "one-time"
STATE = {
    **{"tab": "a", "number": 1, "template": "Review: {text}\nSentiment:{label}"},
    **{"labels": [" Negative", " Positive"], "query": [QUERY], "label": None, "cut": None},
    "demonstrations": [{"text": [text], "label": label} for label, text in enumerate(TEXTS)],
    **{"beta": 0, "further": False, "layer": None},
}
CUT = {"tokens": ["kind:label_words", 3], "to": "target", "layers": [1, 2], "heads": [0, 3]}

WHOLE = Cut(CUT["tokens"], "target", [1, 2], [0, 3])


@dataclass
class Served:
    """A server in a thread, and the task that it opened."""

    task: OpenedTask
    port: int

    def __call__(
        self, method: str, path: str, body: Any = None, **headers: str | None
    ) -> tuple[int, dict[str, str], str]:
        """Status, headers, and text of a response; without further headers, as the page asks."""
        host = f"127.0.0.1:{self.port}"
        given = {
            "Host": host,
            "Origin": f"http://{host}",
            "Cookie": f"anchorflow-{self.port}=secret",
        }
        given |= headers
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        connection.putrequest(method, path, skip_host=True)
        for name, value in {**given, "Content-Length": str(len(raw or b""))}.items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders(raw)
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        return response.status, dict(response.getheaders()), text


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, resolved: Path) -> Iterator[Served]:
    task = prepared(tmp_path_factory.mktemp("results"), resolved)
    with running(task, TOKEN, ONCE) as port:
        yield Served(task, port)


def test_the_address_opens_the_page_and_a_cookie_reloads_it(served: Served) -> None:
    status, headers, text = served("GET", f"/?token={TOKEN}", Cookie=None, Origin=None)
    assert status == 200 and 'id="wording"' in text
    assert "HttpOnly" in headers["set-cookie"] and "SameSite=strict" in headers["set-cookie"]
    assert TOKEN not in text
    assert headers["cache-control"] == "no-store"
    assert served("GET", "/", Origin=None)[0] == 200
    # What the browser is opened with, which others on the computer may see, opens it once.
    assert served("GET", f"/?token={ONCE}", Cookie=None, Origin=None)[0] == 200
    assert served("GET", f"/?token={ONCE}", Cookie=None, Origin=None)[0] == 403
    assert served("GET", f"/?token={TOKEN}", Cookie=None, Origin=None)[0] == 200


def test_the_page_may_run_only_its_own_scripts_and_ask_only_its_server(served: Served) -> None:
    _, headers, text = served("GET", "/")
    policy = text.partition('Content-Security-Policy" content="')[2].partition('"')[0]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert policy.count("'sha256-") == 3 and "connect-src 'self'" in policy
    assert "unsafe" not in policy
    assert headers["content-security-policy"] == "frame-ancestors 'none'"


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"Host": "evil.example:80", "Origin": "http://evil.example:80"}, "this page is at"),
        ({"Host": "127.0.0.1"}, "this page is at"),
        ({"Origin": "http://evil.example"}, "another site asked"),
        ({"Origin": "null"}, "another site asked"),
        ({"Origin": None}, "another site asked"),
        ({"Cookie": None}, "the token is missing"),
        ({"Cookie": "anchorflow-{port}=secre"}, "the token is missing"),
        ({"Cookie": "anchorflow-1=secret"}, "the token is missing"),
    ],
)
def test_others_are_refused(headers: dict[str, str | None], said: str, served: Served) -> None:
    given = {name: value and value.format(port=served.port) for name, value in headers.items()}
    for path in ("/answer", "/save"):
        status, _, text = served("POST", path, STATE, **given)
        assert (status, said in text) == (403, True)
    if "Origin" not in given:
        assert served("GET", "/", **{"Origin": None, **given})[0] == 403


def test_a_token_in_the_address_does_not_ask(served: Served) -> None:
    assert served("POST", f"/answer?token={TOKEN}", STATE, Cookie=None)[0] == 403


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b" " * (MOST_BYTES + 1), 413, "more than 1048576 bytes"),
        (b"{", 400, "no JSON"),
        (b"\xff", 400, "no JSON"),
        (b"[" * 100000, 400, "no JSON"),
        (json.dumps({**STATE, "beta": math.nan}).encode(), 400, "no JSON"),
        ({**STATE, "unknown": 1}, 422, "'unknown' was unexpected"),
        ({**STATE, "beta": 11}, 422, "$.beta: 11 is greater"),
        ({**STATE, "query": [QUERY, "more"]}, 422, "a text has 2 fields"),
        ({**STATE, "demonstrations": [{"text": ["x"], "label": 2}]}, 422, "label is not among"),
        ({**STATE, "labels": [" Good"]}, 422, "fewer than two label words"),
        ({**STATE, "template": "{text}"}, 422, "must contain {label}"),
        ({**STATE, "label": 2}, 422, "label: 2 is not between 0 and 1"),
        ({**STATE, "cut": {**CUT, "layers": [2, 1]}}, 422, "layers: 2 is after 1"),
        ({**STATE, "cut": {**CUT, "layers": [0, 3]}}, 422, "layers: 3 is not between 0 and 2"),
        ({**STATE, "cut": {**CUT, "tokens": [999]}}, 422, "999 is not among"),
        ({**STATE, "cut": {**CUT, "tokens": [1.5]}}, 422, "'tokens': [1.5]"),
        ({**STATE, "query": ["word " * 2000]}, 422, "exceed the context"),
    ],
)
def test_what_can_t_be_answered_is_one_sentence(
    body: Any, status: int, said: str, served: Served
) -> None:
    found, _, text = served("POST", "/answer", body)
    assert found == status
    assert said in json.loads(text)["error"]


def test_prompts_are_limited_by_memory(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anchorflow.one_prompt.asked.available_bytes", lambda *_: 1000)
    status, _, text = served("POST", "/answer", STATE)
    assert status == 422 and "but 0.00 GiB are available" in json.loads(text)["error"]


@pytest.mark.parametrize("failure", [RuntimeError, ValueError])
def test_a_failure_is_logged_and_the_server_goes_on(
    failure: type[Exception],
    served: Served,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise failure("private")

    with monkeypatch.context() as changed:
        changed.setattr("anchorflow.one_prompt.asked.AskedPrompt.page_data", fails)
        status, _, text = served("POST", "/answer", STATE)
    assert status == 500 and "private" not in text
    assert "private" in caplog.text
    assert served("POST", "/answer", STATE)[0] == 200


@pytest.mark.parametrize(
    ("changes", "how"),
    [
        ({"further": True}, {}),
        ({"beta": math.log(3), "label": 0}, {"factor": 3.0, "label": 0}),
        ({"cut": CUT}, {"cut": WHOLE}),
        ({"cut": {**CUT, "tokens": ["kind:label_words", 3.0], "heads": [0.0, 3]}}, {"cut": WHOLE}),
        ({"cut": {**CUT, "layers": None, "heads": None}}, {"cut": Cut(["kind:label_words", 3])}),
    ],
)
def test_an_answer_is_that_of_the_same_question_in_python(
    changes: dict[str, Any], how: dict[str, Any], served: Served
) -> None:
    status, _, text = served("POST", "/answer", {**STATE, **changes})
    assert status == 200
    plain = served.task.ask(served.task.drawn).page_data(**how)
    assert json.loads(text) == json.loads(json.dumps(plain))
    if "factor" in how or "cut" in how:
        assert plain["facts"]["probabilities"]


def test_single_cuts_are_measured_if_asked_for(served: Served) -> None:
    found = json.loads(served("POST", "/answer", STATE)[2])
    assert not any(cut for flow in found["cuts"] for cut in flow)
    found = json.loads(served("POST", "/answer", {**STATE, "further": True})[2])
    assert all(cut for flow in found["cuts"] for cut in flow)


def test_a_cut_is_compared_with_random_tokens_if_asked_for(served: Served) -> None:
    cut = {**CUT, "tokens": ["kind:label_words"], "heads": None}
    asked = {**STATE, "cut": cut, "further": True, "label": 0}
    told = json.loads(served("POST", "/answer", asked)[2])["facts"]["random tokens"]
    rows = served.task.ask(served.task.drawn).cut("label_words", layers=[1, 2], label=0)
    none, this, *drawn = rows["log_odds"].to_list()
    assert told == (
        f"log odds of Negative {none:.2f} → {this:.2f}; as much attention cut to random tokens → "
        f"{sum(drawn) / 20:.2f} ({min(drawn):.2f} to {max(drawn):.2f} in 20 draws)"
    )
    reweighted = json.loads(served("POST", "/answer", {**asked, "beta": 1})[2])
    assert "random tokens" not in reweighted["facts"]  # which cuts the prompt as it is


def test_what_is_saved_is_the_static_page_at_the_same_layer(served: Served) -> None:
    status, _, text = served("POST", "/save", {**STATE, "cut": CUT})
    assert status == 200
    shown = served.task.ask(served.task.drawn).show(cut=WHOLE, title="Information flow: tiny")
    assert text == shown.html
    for layer, opens in ((1, 1), (2, 2), (9, 2)):
        text = served("POST", "/save", {**STATE, "layer": layer})[2]
        assert f'"opens":{opens},' in text


class Requested:
    """A request whose browser may close."""

    def __init__(self) -> None:
        self.closed = False

    async def is_disconnected(self) -> bool:
        return self.closed


class Waiting(Explorer):
    """Answers with a tab's number once it may, layer by layer, as a model would."""

    def __init__(self) -> None:
        super().__init__(SimpleNamespace())  # type: ignore[arg-type]
        self.may_end, self.began = threading.Event(), []

    def answer(self, state: dict[str, Any], saved: bool) -> dict[str, Any]:
        from anchorflow.model import attention_function

        (stopping,) = attention_function._in_force
        self.began.append((state["tab"], state["number"]))
        while not self.may_end.wait(0.01):
            stopping.attend(None, lambda _: torch.zeros(1))  # type: ignore[arg-type]
        return {"number": state["number"]}


def of(tab: str, number: int) -> dict[str, Any]:
    return {"tab": tab, "number": number}


async def _outcome(explorer: Explorer, request: Requested, state: dict[str, Any]) -> Any:
    try:
        return (await explorer.answered(request, state, False))["number"]  # type: ignore[arg-type]
    except SupersededError:
        return None


def test_a_newer_request_of_a_tab_takes_the_place_of_its_others_and_of_no_other_tab_s() -> None:
    explorer = Waiting()

    async def ask() -> list[Any]:
        tasks = []
        for tab, number in (("a", 1), ("a", 2), ("b", 7), ("a", 3)):
            tasks.append(asyncio.ensure_future(_outcome(explorer, Requested(), of(tab, number))))
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.3)  # in which the first is stopped
        explorer.may_end.set()
        return await asyncio.gather(*tasks)

    assert asyncio.run(ask()) == [None, None, 7, 3]
    assert explorer.began == [("a", 1), ("b", 7), ("a", 3)]  # one at a time, in their order
    assert explorer._newest == {}


def test_a_closed_browser_frees_the_model() -> None:
    explorer = Waiting()

    async def ask() -> list[Any]:
        requests = [Requested() for _ in range(3)]
        tasks = [
            asyncio.ensure_future(_outcome(explorer, request, of(tab, 1)))
            for request, tab in zip(requests, "abc", strict=True)
        ]
        await asyncio.sleep(0.05)
        requests[0].closed = requests[1].closed = True
        await asyncio.sleep(0.5)
        explorer.may_end.set()
        return await asyncio.gather(*tasks)

    started = time.monotonic()
    assert asyncio.run(ask()) == [None, None, 1]
    assert [tab for tab, _ in explorer.began] == ["a", "c"]
    assert time.monotonic() - started < 10


def test_a_backward_pass_ends_at_its_next_layer() -> None:
    stopping, weights = _Stop(), torch.ones(2, requires_grad=True)
    stopping.attend(None, lambda _: 2 * weights).sum().backward()  # type: ignore[arg-type]
    assert weights.grad is not None and weights.grad.tolist() == [2, 2]
    output = stopping.attend(None, lambda _: 2 * weights)  # type: ignore[arg-type]
    stopping.stop.set()
    with pytest.raises(SupersededError):
        output.sum().backward()


def test_an_interrupted_server_ends_what_it_computes() -> None:
    explorer = Waiting()

    async def ask() -> list[Any]:
        tasks = [asyncio.ensure_future(_outcome(explorer, Requested(), of(tab, 1))) for tab in "ab"]
        await asyncio.sleep(0.05)
        explorer.ends = True
        return await asyncio.wait_for(asyncio.gather(*tasks), 10)

    assert asyncio.run(ask()) == [None, None]
    assert explorer.began == [("a", 1)]


def test_a_cancelled_request_ends_its_computation() -> None:
    explorer = Waiting()

    async def ask() -> None:
        task = asyncio.ensure_future(_outcome(explorer, Requested(), of("a", 1)))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(ask())


def test_a_port_in_use_is_refused(served: Served) -> None:
    with pytest.raises(InputError, match=f"--port: {served.port} can't be used"):
        listen(served.port)
