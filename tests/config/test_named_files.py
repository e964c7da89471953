"""Paths in the configuration, inside packages and outside."""

from pathlib import Path

from anchorflow.config.named_files import packaged


def test_a_path_without_package_stays_as_it_is() -> None:
    assert packaged("encoder.path", "models/mine") == Path("models/mine")
