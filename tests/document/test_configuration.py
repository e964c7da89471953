"""The configuration's reference against the schema it is made from, and its examples, checked."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from anchorflow.config.configuration import complete_configuration, read_schema
from anchorflow.config.places import REPOSITORY
from tools.document import SCHEMA_FILE
from tools.document.configuration import configuration_page

SCHEMA = read_schema(SCHEMA_FILE)


def keys_of(part: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Every dotted key of a schema, written anew here as a check on the generator."""
    for key, inner in part.get("properties", {}).items():
        yield f"{prefix}{key}"
        yield from keys_of(inner, f"{prefix}{key}.")
    if isinstance(part.get("additionalProperties"), dict):
        yield from keys_of(part["additionalProperties"], f"{prefix}<name>.")


def test_every_key_of_the_schema_has_a_row_or_a_section() -> None:
    page = configuration_page()
    assert "Sections of analyses\nalso have `seeds`" in page
    for key in keys_of(SCHEMA):
        if key.endswith((".seeds", ".examples")) and not key.startswith(("controls", "flow_page")):
            continue  # said once for all analyses
        assert f"| `{key}` | " in page or f"\n## `{key}`\n" in page, key


def test_kinds_defaults_and_requirements_are_written_out() -> None:
    page = configuration_page()
    for row in (
        "| `models.<name>.source` | `hub`, `local` or `gguf` | none | ",
        "| `models.<name>.memory` | integer, ≥ 100 | `4000` | ",
        "| `tasks.<name>.train` | string | required for `local` and `hub` | ",
        "| `tasks.<name>.labels` | list of at least 2 distinct values (string) | required | ",
        '| `tasks.<name>.columns.text` | string or list of values (string) | `"text"` | ',
        "| `statistics.confidence` | number, > 0, < 1 | `0.95` | ",
    ):
        assert row in page


def test_the_examples_are_complete_configurations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for split in ("train", "test"):
        (tmp_path / f"{split}.csv").touch()
    for model in ("path/to/model", "path/to/instruct-model"):
        (tmp_path / model).mkdir(parents=True)
        (tmp_path / model / "config.json").touch()
    blocks = re.findall(r"```yaml\n(.*?)```", configuration_page(), re.DOTALL)
    example, of_fields, of_chat = blocks
    assert len(example.splitlines()) == 5
    for page in ("README.md", "config/README.md", "docs/how_to/own_model_and_data.md"):
        assert example in (REPOSITORY / page).read_text(encoding="utf-8")
    for changed in ("{}", of_fields, of_chat):
        settings = yaml.safe_load(example) | yaml.safe_load(changed)
        complete_configuration(settings, SCHEMA_FILE)
