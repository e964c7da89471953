"""What YAML can say and a configuration may not: told before anything is computed from it."""

from pathlib import Path
from typing import Any

import pytest

from anchorflow.config.errors import InputError
from anchorflow.config.yaml_values import MOST_BYTES, MOST_VALUES, check_file, check_values


def refused_values(config: dict[str, Any]) -> str:
    with pytest.raises(InputError) as error:
        check_values(config)
    return str(error.value)


def refused_file(folder: Path, text: str) -> str:
    path = folder / "c.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as error:
        check_file(path)
    return str(error.value).removeprefix(f"{folder}/")


def test_texts_of_any_script_and_ordinary_numbers_are_plain() -> None:
    check_values({"a": ["é 😀 e\u0301\u200b\u202e\n\t", 1, -0.5, True, None], "b": {"c": {}}})


def test_a_few_lists_that_anchors_blow_up_are_refused_without_being_written_out() -> None:
    laughs: list[Any] = ["lol"]
    for _ in range(15):
        laughs = [laughs] * 10
    assert refused_values({"seeds": laughs}) == (
        f"seeds: holds more than {MOST_VALUES} values, or lists and mappings nested more than 20 "
        "deep; write it out without YAML's anchors."
    )


def test_what_contains_itself_is_refused() -> None:
    knot: dict[str, Any] = {}
    knot["again"] = [knot]
    assert refused_values(knot).startswith("again: holds more than")


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_are_none_are_refused(number: float) -> None:
    sentence = f"encoder.temperature: {number} is not a finite number; give one."
    assert refused_values({"encoder": {"temperature": number}}) == sentence


@pytest.mark.parametrize(
    ("text", "point"), [("a\0", "0000"), ("\x1b[2J", "001B"), ("\ud800", "D800")]
)
def test_text_that_can_t_be_written_or_shown_is_refused(text: str, point: str) -> None:
    told = f"{text!r} holds U+{point}, a control character or half of a surrogate pair; remove it."
    assert refused_values({"tasks": {"x": {"labels": ["a", text]}}}) == f"tasks.x.labels.1: {told}"
    assert refused_values({"tasks": {text: 1}}) == f"tasks: {told}"


def test_a_name_may_not_end_with_a_newline() -> None:
    assert refused_values({"tasks": {"x\n": 1}}).startswith("tasks: 'x\\n' holds U+000A")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: 1\nb: 2\na: 3\n", 'the key "a" appears twice in one mapping (line 3)'),
        ("m:\n  x: {y: 1, z: {y: 2, y: 3}}\n", 'the key "y" appears twice in one mapping (line 2)'),
        ('{"a": {"b": 1, "b": 2}}', 'the key "b" appears twice in one mapping'),
        ("1: a\n1: b\n", 'the key "1" appears twice in one mapping (line 2)'),
    ],
)
def test_a_key_that_stands_twice_is_told(tmp_path: Path, text: str, told: str) -> None:
    assert refused_file(tmp_path, text) == f"c.yaml: {told}; remove or rename one."


def test_a_file_without_repeated_keys_is_accepted_anchors_and_all(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    for text in (
        "a: &x {b: 1}\nc: *x\nd: {<<: *x, b: 2}\n",
        '{"a": {"b": 1}, "b": [{"b": 2}]}',
        "",
    ):
        path.write_text(text, encoding="utf-8")
        check_file(path)


def test_a_huge_file_is_refused_by_its_size(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.touch()
    with open(path, "r+b") as file:
        file.truncate(50_000_000)
    with pytest.raises(InputError, match=f"50000000 bytes are too many .*at most {MOST_BYTES}"):
        check_file(path)
