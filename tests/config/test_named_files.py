"""Paths in the configuration, inside packages and outside."""

from pathlib import Path

import pytest

from anchorflow.config.errors import InputError
from anchorflow.config.named_files import local_model, packaged


def test_a_path_without_package_stays_as_it_is() -> None:
    assert packaged("encoder.path", "models/mine") == Path("models/mine")


def test_adapters_without_their_model_are_told_how_to_merge(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match=r"adapters without their model; .*merge_and_unload\(\)"):
        local_model("tiny", str(tmp_path))
