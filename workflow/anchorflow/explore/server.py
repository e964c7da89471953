"""The server of the page: on this computer alone, for whoever has its address, without any state.

A request has all that the answer depends on, so tabs do not mix. It needs the token, which the
address has when it is first opened and a cookie has after that, and it must come from the page
itself: other sites can neither read nor ask (``Host``, ``Origin``).
"""

import asyncio
import hmac
import json
import logging
import math
import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from importlib.resources import files
from typing import Any

import uvicorn
from jsonschema import Draft202012Validator
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from torch import Tensor

from anchorflow.analyses.flow_page.plot import Controls, page
from anchorflow.config.errors import InputError, is_out_of_memory
from anchorflow.config.text_fields import FIELD_SEPARATOR
from anchorflow.explore.task import Asked, OpenedTask
from anchorflow.model.attention_function import Attention, AttentionCall, intervene
from anchorflow.one_prompt.asked import TO, AskedPrompt, Cut

log = logging.getLogger(__name__)

ADDRESS = "127.0.0.1"
MOST_BYTES = 2**20  # of a request
MOST_BETA = 10  # in either direction
_NEXT_LOOK = 0.2  # seconds until a tab's newer request, or its end, is noticed

_TEXT = {"type": "string", "pattern": f"^[^{FIELD_SEPARATOR}]*$"}
_FIELDS = {"type": "array", "items": _TEXT, "minItems": 1}
_NUMBER = {"type": "integer", "minimum": 0, "maximum": 2**31}
_PLACE = {"type": "integer", "minimum": 0, "maximum": 9999}  # of a layer or head


def _exactly(**properties: Any) -> dict[str, Any]:
    closed = {"additionalProperties": False, "required": list(properties)}
    return {"type": "object", "properties": properties, **closed}


_CUT = _exactly(
    tokens={"type": "array", "items": {"type": ["integer", "string"]}, "minItems": 1},
    to={"enum": list(TO)},
    layers={"type": ["array", "null"], "items": _PLACE, "minItems": 2, "maxItems": 2},
    heads={"type": ["array", "null"], "items": _PLACE, "minItems": 1},
)
_STATE = Draft202012Validator(
    _exactly(
        tab={"type": "string", "maxLength": 64},
        number=_NUMBER,
        template={"type": "string"},
        labels={"type": "array", "items": {"type": "string", "minLength": 1}},
        demonstrations={"type": "array", "items": _exactly(text=_FIELDS, label=_NUMBER)},
        query=_FIELDS,
        label={"type": ["integer", "null"]},
        cut={"anyOf": [{"type": "null"}, _CUT]},
        beta={"type": "number", "minimum": -MOST_BETA, "maximum": MOST_BETA},
        further={"type": "boolean"},
        layer={"anyOf": [{"type": "null"}, _PLACE]},
    )
)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number")


def _number(text: str) -> float:
    """A number, as an integer if it is one, which the schema can't tell from others."""
    value = float(text)
    return int(value) if value.is_integer() else value


class SupersededError(Exception):
    """Nobody waits for the answer any longer."""


class _Stop:
    """The intervention that ends a computation at its next layer, forward or backward.

    It does so once ``stop`` is set.
    """

    def __init__(self) -> None:
        self.stop = threading.Event()

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        """The layer's output as it is, [B, H, T, D]."""
        self._check()
        output = attention(call)
        if output.requires_grad:
            output.register_hook(self._check)
        return output

    def _check(self, _: Tensor | None = None) -> None:
        if self.stop.is_set():
            raise SupersededError


def _compared(prompt: AskedPrompt, cut: Cut, label: int | None) -> str:
    """A cut beside cuts of random tokens that hold as much attention, in words."""
    rows = prompt.cut(cut.tokens, cut.to, cut.layers, cut.heads, label)
    none, this = rows["log_odds"][:2]
    drawn = rows.filter(cut="random")["log_odds"].to_list()
    return (
        f"log odds of {prompt.words[prompt.label(label)]} {none:.2f} → {this:.2f}; as much "
        f"attention cut to random tokens → {sum(drawn) / len(drawn):.2f} ({min(drawn):.2f} to "
        f"{max(drawn):.2f} in {len(drawn)} draws)"
    )


class Explorer:
    """Answers requests about prompts of a task, one at a time, and of each tab only the newest."""

    def __init__(self, task: OpenedTask) -> None:
        self.task = task
        self.ends = False  # whether nobody is to be answered any longer
        self._one = asyncio.Lock()
        self._newest: dict[str, int] = {}

    def shown(self) -> str:
        """The page, on which nothing is answered yet."""
        drawn, config = self.task.drawn, self.task.model.config.get_text_config()
        demonstrations = [{"text": t, "label": label} for t, label in drawn.demonstrations]
        state = {**vars(drawn), "demonstrations": demonstrations}
        size = {"depth": config.num_hidden_layers, "heads": config.num_attention_heads}
        parts = (files("anchorflow.explore") / f"page.{kind}" for kind in ("html", "css", "js"))
        controls = Controls(*(part.read_text(encoding="utf-8") for part in parts))
        live = {"state": state, "fields": self.task.fields, "task": self.task.task, **size}
        return page(self._title, {"live": live}, controls)

    @property
    def _title(self) -> str:
        return f"Information flow: {self.task.name}"

    def answer(self, state: dict[str, Any], saved: bool) -> dict[str, Any] | str:
        """The data of a state's page, or the page itself to be ``saved``."""
        fields, labels = self.task.fields, state["labels"]
        texts = [state["query"], *(shown["text"] for shown in state["demonstrations"])]
        if wrong := [text for text in texts if len(text) != len(fields)]:
            raise InputError(
                f"a text has {len(wrong[0])} fields, but those of {self.task.task} have "
                f"{len(fields)}; open the page anew."
            )
        if len(labels) < 2:
            raise InputError("there are fewer than two label words; write one on each line.")
        if any(shown["label"] >= len(labels) for shown in state["demonstrations"]):
            raise InputError("a demonstration's label is not among the label words; choose one.")
        demonstrations = ((tuple(d["text"]), d["label"]) for d in state["demonstrations"])
        prompt = self.task.ask(
            Asked(state["template"], tuple(labels), tuple(demonstrations), tuple(state["query"]))
        )
        cut = state["cut"]
        if cut is not None:
            first, last = cut["layers"] or (0, -1)
            if cut["layers"] and first > last:
                raise InputError(f"layers: {first} is after {last}; exchange them.")
            depth = self.task.model.config.get_text_config().num_hidden_layers
            if last >= depth:
                raise InputError(f"layers: {last} is not between 0 and {depth - 1}.")
            # Of a hybrid model, those that attend.
            among = [place for place in prompt.places if first <= place <= last]
            layers = among if cut["layers"] else None
            if layers is not None and not layers:
                raise InputError(f"layers: none of {first} to {last} attends; choose others.")
            cut = Cut(cut["tokens"], cut["to"], layers, cut["heads"])
        how = (state["label"], cut, math.exp(state["beta"]))
        if saved:
            data = prompt.page_data(*how)
            opens = data["opens"] if state["layer"] is None else state["layer"]
            return page(self._title, {**data, "opens": min(opens, len(data["layers"]) - 1)})
        data = prompt.page_data(*how, flows_cut=state["further"])
        if state["further"] and cut is not None and state["beta"] == 0:
            data["facts"]["random tokens"] = _compared(prompt, cut, state["label"])
        return data

    async def answered(self, request: Request, state: dict[str, Any], saved: bool) -> Any:
        """The answer to a request, computed in a thread; raises SupersededError if nobody waits."""
        tab, number = state["tab"], state["number"]
        self._newest[tab] = max(number, self._newest.get(tab, 0))

        async def is_wanted() -> bool:
            newest = self._newest.get(tab) == number
            return newest and not self.ends and not await request.is_disconnected()

        stopping = _Stop()

        def compute() -> Any:
            with intervene(stopping):
                return self.answer(state, saved)

        try:
            async with self._one:
                if not await is_wanted():
                    raise SupersededError
                computing = asyncio.ensure_future(asyncio.to_thread(compute))
                try:
                    while not (await asyncio.wait([computing], timeout=_NEXT_LOOK))[0]:
                        if not await is_wanted():
                            stopping.stop.set()
                    return computing.result()
                finally:
                    stopping.stop.set()  # also if the server ends
                    await asyncio.wait([computing])
        finally:
            if self._newest.get(tab) == number:
                del self._newest[tab]


def application(explorer: Explorer, port: int, token: str, once: str = "") -> Starlette:
    """The application for requests with ``token``; the code ``once`` opens the page one time."""
    cookie, hosts = f"anchorflow-{port}", {f"{name}:{port}" for name in (ADDRESS, "localhost")}
    codes = {code for code in (token, once) if code}

    def refusal(request: Request) -> str | None:
        """Why a request is refused."""
        host = request.headers.get("host", "")
        if host not in hosts:
            return f"this page is at {ADDRESS}:{port}; forward the same port from another computer."
        opens = request.method == "GET"
        origin = request.headers.get("origin", f"http://{host}" if opens else "")
        if origin != f"http://{host}":
            return "another site asked."
        given = request.query_params.get("token", "") if opens else ""
        if any(hmac.compare_digest(given.encode(), code.encode()) for code in codes):
            codes.discard(once if given == once else "")
            return None
        if hmac.compare_digest(request.cookies.get(cookie, "").encode(), token.encode()):
            return None
        return "the token is missing; open the address that anchorflow explore printed."

    def guarded(handler: Callable[[Request], Any]) -> Callable[[Request], Any]:
        async def guard(request: Request) -> Response:
            why = refusal(request)
            response = PlainTextResponse(f"Refused: {why}", 403) if why else await handler(request)
            response.headers["Cache-Control"] = "no-store"
            response.headers["X-Content-Type-Options"] = "nosniff"
            response.headers["Referrer-Policy"] = "no-referrer"
            response.headers["Content-Security-Policy"] = "frame-ancestors 'none'"
            return response

        return guard

    async def show(_: Request) -> Response:
        response = HTMLResponse(explorer.shown())
        response.set_cookie(cookie, token, httponly=True, samesite="strict")
        return response

    async def answer(request: Request) -> Response:
        saved = request.url.path == "/save"
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > MOST_BYTES:
                return _error(f"the prompt has more than {MOST_BYTES} bytes; shorten it.", 413)
        try:
            state = json.loads(body, parse_constant=_refuse, parse_float=_number)
        except (ValueError, RecursionError):
            return _error("the request is no JSON; open the page anew.", 400)
        try:
            wrong = next(_STATE.iter_errors(state), None)
            if wrong is not None:
                raise InputError(f"{wrong.json_path}: {wrong.message}; open the page anew.")
            found = await explorer.answered(request, state, saved)
        except SupersededError:
            return _error("a newer request took its place.", 409)
        except InputError as error:
            return _error(str(error), 422)
        except Exception as error:
            if is_out_of_memory(error):
                return _error("memory ran out; shorten the prompt.", 422)
            log.exception("A request failed.")
            return _error("this failed; what happened is where anchorflow explore runs.", 500)
        return HTMLResponse(found) if saved else JSONResponse(found)

    def _error(sentence: str, code: int) -> Response:
        return JSONResponse({"error": sentence}, code)

    return Starlette(
        routes=[
            Route("/", guarded(show), methods=["GET"]),
            Route("/answer", guarded(answer), methods=["POST"]),
            Route("/save", guarded(answer), methods=["POST"]),
        ]
    )


def listen(port: int) -> socket.socket:
    """Take a port on this computer; 0 is any free one."""
    try:
        return socket.create_server((ADDRESS, port))
    except OSError as error:
        raise InputError(
            f"--port: {port} can't be used ({error.strerror}); choose another, or 0 for a free one."
        ) from None


class _Server(uvicorn.Server):
    """A server that stops what it computes as soon as it is interrupted."""

    def __init__(self, explorer: Explorer, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._explorer = explorer

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Take a signal; a second one ends at once."""
        self._explorer.ends = True
        super().handle_exit(sig, frame)


def serve(task: OpenedTask, listening: socket.socket, opens_browser: bool) -> None:
    """Serve the page until Ctrl-C, and say where it is."""
    port = listening.getsockname()[1]
    token, once = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    # Arguments of the browser are seen by others on this computer, so it gets another code.
    explorer = Explorer(task)
    app = application(explorer, port, token, once if opens_browser else "")
    print(f"Open http://{ADDRESS}:{port}/?token={token} and end with Ctrl-C.", flush=True)
    if opens_browser:
        webbrowser.open(f"http://{ADDRESS}:{port}/?token={once}")
    server = _Server(explorer, uvicorn.Config(app, log_level="warning", ws="none", lifespan="off"))
    with suppress(KeyboardInterrupt):
        server.run([listening])
    print("Ended.")
