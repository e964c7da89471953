"""Templates: they are split at their own placeholders, and texts may contain others."""

import pytest

from anchorflow.prepare.template import Template, build_prompt
from review_prompts import PAIRS, TEMPLATE
from stub_tokenizers import StubTokenizer


def test_a_template_is_split_at_its_placeholders() -> None:
    text = ("field", "text")
    assert TEMPLATE.pieces == (("template", "Review: "), text, ("template", "\nSentiment:"))
    assert Template.parse("{text} = {label}").pieces == (
        ("template", ""),
        text,
        ("template", " = "),
    )


def test_fields_are_written_in_the_template_s_order_whatever_the_columns_order() -> None:
    template = Template.parse("{b} after {a}:{label}", ("a", "b"))
    prompt = build_prompt(StubTokenizer("(?s)."), template, [("x\x1fyz", " +")], "u\x1fv")
    # y z _ a f t e r _ x : _ +  \n v _ a f t e r _ u :
    # 0 1               9  10 12 13 14             22
    assert "".join(map(chr, prompt.token_ids)) == "yz after x: +\nv after u:"
    assert prompt.field_names == ["b", "a"]
    assert (prompt.field_starts, prompt.field_ends) == ([0, 9, 14, 22], [2, 10, 15, 23])


def test_a_text_with_another_number_of_fields_is_an_error() -> None:
    with pytest.raises(ValueError, match="shorter"):
        build_prompt(StubTokenizer("(?s)."), PAIRS, [], "one field")


def test_braces_and_other_people_s_placeholders_in_a_template_are_plain_text() -> None:
    template = Template.parse("{{text}} {0} %s ${x} {{ y }} {% z %} {model}={label}")
    assert [characters for _, characters in template.pieces] == [
        "{",
        "text",
        "} {0} %s ${x} {{ y }} {% z %} {model}=",
    ]
    prompt = build_prompt(StubTokenizer("(?s)."), template, [("{a}", " {b}")], "{label}")
    written = "".join(map(chr, prompt.token_ids))
    middle = "} {0} %s ${x} {{ y }} {% z %} {model}="
    assert written == "{{a}" + middle + " {b}\n{{label}" + middle
