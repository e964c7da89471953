"""Renders chat templates in a process of its own, with limits of time, memory and length.

A chat template is a program that comes with a model. It is run as transformers'
``apply_chat_template`` runs it (``transformers/utils/chat_template_utils.py``), in Jinja's sandbox,
except that nothing is there which changes from call to call: no ``strftime_now``, no ``random``
and no ``lipsum``. A template that asks whether ``strftime_now`` is defined then takes the date
that it holds itself.

:func:`render` starts this file as a program. It reads a line of JSON with the template and its
variables, then a line per conversation, and writes a line per conversation.
"""

import json
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Template, TemplateError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

Message = dict[str, str]  # with "role" and "content"

_SECONDS = 20  # of CPU time, for each conversation
_MEMORY = 2**31  # bytes of address space
_LONGEST = (100_000, 1000)  # characters beside the contents, and further ones for each turn


@dataclass(frozen=True)
class Rendering:
    """What a template makes of a conversation: its text, or why there is none."""

    text: str = ""
    failure: str | None = None
    told: bool = False  # whether the failure is a sentence of the template's own


def render(
    template: str, variables: Mapping[str, Any], conversations: Sequence[Sequence[Message]]
) -> list[Rendering]:
    """Render conversations, each up to where the assistant's next turn begins.

    Parameters
    ----------
    template : str
        The source in Jinja.
    variables : mapping
        What the template can see beside the messages, such as ``bos_token``.
    """
    settings = {"template": template, "variables": dict(variables), "seconds": _SECONDS}
    lines = [settings, *map(list, conversations)]
    finished = subprocess.run(
        [sys.executable, "-P", __file__],
        input="".join(f"{json.dumps(line)}\n" for line in lines),
        capture_output=True,
        encoding="ascii",
        errors="replace",
    )
    found = [Rendering(**json.loads(line)) for line in finished.stdout.splitlines()]
    if finished.returncode == -signal.SIGPROF:
        stopped = f"takes more than {_SECONDS} seconds for a prompt"
    else:
        last = (finished.stderr.strip().splitlines() or [""])[-1]
        stopped = f"could not be rendered (exit status {finished.returncode}: {last})"
    missing = len(conversations) - len(found)
    return found + [Rendering(failure=stopped)] * missing


def _main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    told = json.loads(sys.stdin.readline())
    for line in sys.stdin:
        # The signal's default action ends the process, even inside of one long operation.
        signal.setitimer(signal.ITIMER_PROF, told["seconds"])
        rendering = render_one(told["template"], told["variables"], json.loads(line))
        print(json.dumps(vars(rendering)), flush=True)


def render_one(source: str, variables: Mapping[str, Any], messages: Sequence[Message]) -> Rendering:
    """Render one conversation in this process, with no other limit than that of length."""
    spare, each = _LONGEST
    most = spare + sum(each + len(message["content"]) for message in messages)
    settings = {"tools": None, "documents": None, "add_generation_prompt": True}
    length, parts = 0, []
    try:
        for part in _compiled(source).generate(messages=messages, **settings, **variables):
            length += len(part)
            if length > most:
                return Rendering(failure=f"writes more than {spare} characters of its own")
            parts.append(part)
    except MemoryError:
        return Rendering(failure=f"takes more than {_MEMORY >> 30} GiB of memory for a prompt")
    except Exception as error:  # a template can fail in any way
        reason = " ".join(str(error).split()) or type(error).__name__
        if "strftime_now" in reason:
            return Rendering(failure="asks for today's date (strftime_now)")
        if "'random'" in reason or "'lipsum'" in reason:
            return Rendering(failure=f"draws at random ({reason})")
        if type(error) is TemplateError:
            return Rendering(failure=f'refuses these turns ("{reason}")', told=True)
        return Rendering(failure=f"fails ({reason})")
    return Rendering("".join(parts))


_templates: dict[str, Template] = {}


def _compiled(source: str) -> Template:
    if source not in _templates:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise_exception
        environment.globals["namespace"] = _Namespace
        environment.globals["dict"] = _dict
        del environment.filters["random"], environment.globals["lipsum"]
        _templates[source] = environment.from_string(source)
    return _templates[source]


class _Generation(Extension):
    """``{% generation %}``, which marks what an assistant says and changes nothing."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body).set_lineno(line)


class _Namespace(Namespace):
    """A namespace that refuses names by which a template could leave the sandbox."""

    def __init__(*args: Any, **kwargs: Any) -> None:  # a template may name an attribute "self"
        for name in dict(*args[1:], **kwargs):
            _check_name(name)
        Namespace.__init__(*args, **kwargs)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)


def _check_name(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a namespace can't have the attribute {name!r}")


def _dict(*args: Any, **kwargs: Any) -> dict:
    return dict(*args, **kwargs)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as transformers writes it, without Jinja's escapes of HTML."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _raise_exception(message: str) -> None:
    raise TemplateError(message)


if __name__ == "__main__":
    _main()
