"""Chat templates are rendered as transformers does it, and can do nothing else."""

from pathlib import Path

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from anchorflow.prepare import chat_rendering
from anchorflow.prepare.chat_rendering import render, render_one
from checkout import ROOT

TEMPLATES = sorted((ROOT / "tests/tools/chat_templates").glob("*.jinja"))
MESSAGES = [
    {"role": "user", "content": "Review: <b>fine</b> & 'dandy'\n\n é"},
    {"role": "assistant", "content": "Positive"},
    {"role": "user", "content": "Review: dull"},
]
SETTINGS = {"bos_token": "<s>", "eos_token": "</s>", "enable_thinking": False}


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.stem)
def test_a_template_is_rendered_as_transformers_renders_it(template: Path) -> None:
    source = template.read_text(encoding="utf-8")
    # Llama 3.2 writes today's date there, and the date that it holds itself here.
    dated = {"date_string": "26 Jul 2024"} if template.stem == "llama32" else {}
    expected, _ = render_jinja_template(
        [MESSAGES], chat_template=source, add_generation_prompt=True, **SETTINGS, **dated
    )
    found = render_one(source, SETTINGS, MESSAGES)
    assert found.failure is None
    assert found.text == expected[0]


# What templates of the Hub use of Jinja and of what transformers adds to it.
FEATURES = """
{%- set ns = namespace(last='', self=1) %}
  {% for message in messages %}
    {% if message.role == 'assistant' %}{% continue %}{% endif %}
    {% generation %}{{ message | tojson }}|{{ message | tojson(indent=1) }}{% endgeneration %}
    {% set ns.last = message.content %}
    {% if loop.last %}{% break %}{% endif %}
  {% endfor %}
{{ ns.last ~ dict(a=1)['a'] ~ tools ~ (documents is none) ~ add_generation_prompt ~ bos_token }}
{{- unknown }}"""


def test_what_transformers_adds_to_jinja_is_there() -> None:
    (expected,), _ = render_jinja_template(
        [MESSAGES], chat_template=FEATURES, add_generation_prompt=True, **SETTINGS
    )
    found = render_one(FEATURES, SETTINGS, MESSAGES)
    assert found.text == expected
    assert "é" in found.text and "NoneTrueTrue<s>" in found.text


@pytest.mark.parametrize(
    ("template", "failure"),
    [
        ("{{ strftime_now('%Y') }}", "asks for today's date (strftime_now)"),
        ("{{ [1, 2] | random }}", "draws at random (No filter named 'random'.)"),
        ("{{ lipsum() }}", "draws at random ('lipsum' is undefined)"),
        ("{{ raise_exception('no\n system') }}", 'refuses these turns ("no system")'),
        ("{{ 'x' * 400000 }}", "writes more than 100000 characters of its own"),
        (
            "{% for i in range(99999) %}{{ messages[0].content }}{% endfor %}",
            "writes more than 100000 characters of its own",
        ),
        ("{% if %}", "fails (Expected an expression, got 'end of statement block')"),
        (
            "{{ ''.__class__.__mro__ }}",
            "fails (access to attribute '__class__' of 'str' object is unsafe.)",
        ),
        ("{{ messages.append(1) }}", "fails (access to attribute 'append' of 'list' object is u"),
        ("{% set ns = namespace(_x=1) %}", "fails (a namespace can't have the attribute '_x')"),
        (
            "{% set ns = namespace() %}{% set ns.__class__ = 1 %}",
            "fails (a namespace can't have the attribute '__class__')",
        ),
        ("{% include '/etc/hostname' %}", "fails (no loader for this environment specified)"),
        ("{{ 1 / 0 }}", "fails (division by zero)"),
    ],
)
def test_a_template_that_leaves_its_bounds_gives_no_text(template: str, failure: str) -> None:
    found = render_one(template, {}, MESSAGES)
    assert found.text == ""
    assert found.failure is not None
    assert found.failure.startswith(failure)
    assert found.told == template.startswith("{{ raise_exception")


def test_the_process_returns_what_is_rendered_in_order() -> None:
    source = "{{ messages[0].content }}{{ 1 / (messages | length - 1) }}{{ bos_token }}"
    found = render(source, SETTINGS, [MESSAGES, MESSAGES[:1], MESSAGES[:2]])
    assert found == [
        render_one(source, SETTINGS, messages)
        for messages in (MESSAGES, MESSAGES[:1], MESSAGES[:2])
    ]
    assert [rendering.failure for rendering in found] == [None, "fails (division by zero)", None]


def test_a_template_that_takes_much_memory_is_stopped() -> None:
    (found,) = render("{{ 'x' * 4000000000 }}", {}, [MESSAGES])
    assert found.failure == "takes more than 2 GiB of memory for a prompt"


def test_a_template_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_rendering, "_SECONDS", 1)
    forever = "{% for i in range(99999) %}" * 3 + "{% endfor %}" * 3
    template = f"{{% if messages[0].content == 'loop' %}}{forever}{{% endif %}}done"
    loop = [{"role": "user", "content": "loop"}]
    first, second, third = render(template, {}, [MESSAGES, loop, MESSAGES])
    assert first.text == "done"
    assert second.failure == third.failure == "takes more than 1 seconds for a prompt"


def test_the_process_reports_why_it_could_not_render(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_rendering, "_SECONDS", "x")
    (found,) = render("", {}, [MESSAGES])
    assert found.failure is not None
    assert found.failure.startswith("could not be rendered (exit status 1: TypeError")
