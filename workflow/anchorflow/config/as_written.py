"""What YAML reads otherwise than it is written: keys that appear twice, label words as numbers."""

import contextlib
import re
from pathlib import Path
from typing import Any

import yaml

from anchorflow.config.errors import InputError

_OF_WORDS = ("labels", "values")  # and those under label_words
_AS_WRITTEN = re.compile(r"0|-?[1-9][0-9]*|true|false")  # numbers and truth values that stay


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
        self._check_words(node)
        return super().construct_mapping(node, deep)

    def _check_words(self, node: yaml.MappingNode) -> None:
        """Raise InputError if a word in a list of label words or values would become another."""
        for key, part in node.value:
            lists = [part] if key.value in _OF_WORDS else []
            if key.value == "label_words" and isinstance(part, yaml.MappingNode):
                lists = [words for _, words in part.value]
            sequences = [found for found in lists if isinstance(found, yaml.SequenceNode)]
            for word in (word for found in sequences for word in found.value):
                if not isinstance(word, yaml.ScalarNode) or word.tag.endswith(":str"):
                    continue
                if key.value != "values" or not _AS_WRITTEN.fullmatch(word.value):
                    raise InputError(
                        f"{self.name}: line {word.start_mark.line + 1}: under {key.value}, YAML "
                        f"reads {word.value or 'nothing'} as {word.tag.rpartition(':')[2]}; put it "
                        f'in quotes: "{word.value}".'
                    )


def check_keys(path: str | Path) -> None:
    """Check that no mapping in a configuration file has a key twice, and words stay words.

    Snakemake has read the file by then; JSON that is no YAML, as with tabs, is not checked.
    """
    # ValueError is of a date or a number that can't be one.
    with contextlib.suppress(yaml.YAMLError, ValueError), open(path, encoding="utf-8") as file:
        yaml.load(file, _Loader)


def read_configuration(path: str | Path) -> dict[str, Any]:
    """The mapping in a configuration file; raises InputError if there is none."""
    try:
        check_keys(path)
        found = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError) as error:  # also of bytes that are no UTF-8
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: not readable as YAML ({reason}); correct it.") from None
    if not isinstance(found, dict):
        raise InputError(f"{path}: has no keys; write some, or make one with anchorflow init.")
    return found
