"""Keys that appear twice in a configuration file; YAML would silently take the last one."""

import contextlib
from pathlib import Path
from typing import Any

import yaml

from anchorflow.config.errors import InputError


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A mapping; raises InputError if a key appears twice."""
        seen = set()
        for key, _ in node.value:
            named = (key.tag, str(key.value))
            if named in seen:
                raise InputError(
                    f'{self.name}: the key "{key.value}" appears twice in one mapping (line '
                    f"{key.start_mark.line + 1}); remove or rename one."
                )
            seen.add(named)
        return super().construct_mapping(node, deep)


def check_keys(path: str | Path) -> None:
    """Check that no mapping in a configuration file has a key twice.

    Snakemake has read the file by then; JSON that is no YAML, as with tabs, is not checked.

    Raises
    ------
    InputError
        If one has; names the key and its line.
    """
    with contextlib.suppress(yaml.YAMLError), open(path, encoding="utf-8") as file:
        yaml.load(file, _Loader)


def read_configuration(path: str | Path) -> dict[str, Any]:
    """The mapping in a configuration file; raises InputError if there is none."""
    try:
        check_keys(path)
        found = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: not readable as YAML ({reason}); correct it.") from None
    if not isinstance(found, dict):
        raise InputError(f"{path}: has no keys; write some, or make one with anchorflow init.")
    return found
