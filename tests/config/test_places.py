"""Interpreters that a run needs."""

import pytest

from anchorflow.config.errors import InputError
from anchorflow.config.places import check_interpreter


def test_an_interpreter_whose_path_has_blanks_is_refused() -> None:
    """Snakemake puts it into a command line as it is."""
    check_interpreter("/home/me/.venv/bin/python")
    with pytest.raises(InputError, match=r"^/home/my name/bin/python: Snakemake runs no scripts"):
        check_interpreter("/home/my name/bin/python")
