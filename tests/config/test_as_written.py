"""Keys that stand twice in a configuration file are told; anchors and merged mappings are not."""

from pathlib import Path

import pytest

from anchorflow.config.as_written import check_keys
from anchorflow.config.errors import InputError


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: 1\nb: 2\na: 3\n", 'the key "a" appears twice in one mapping (line 3)'),
        ("m:\n  x: {y: 1, z: {y: 2, y: 3}}\n", 'the key "y" appears twice in one mapping (line 2)'),
        ('{"a": {"b": 1, "b": 2}}', 'the key "b" appears twice in one mapping (line 1)'),
        ("1: a\n1: b\n", 'the key "1" appears twice in one mapping (line 2)'),
    ],
)
def test_a_key_that_stands_twice_is_told(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as error:
        check_keys(path)
    assert str(error.value) == f"{path}: {told}; remove or rename one."


@pytest.mark.parametrize(
    "text",
    [
        "a: &x {b: 1}\nc: *x\nd: {<<: *x, b: 2}\n",
        '{"a": {"b": 1}, "b": [{"b": 2}]}',
        '1: a\n"1": b\n',
        "",
        '{\n\t"a": 1\n}',
    ],
)
def test_a_file_without_as_written_is_accepted_anchors_and_all(tmp_path: Path, text: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(text, encoding="utf-8")
    check_keys(path)
