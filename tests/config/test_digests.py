"""Which code a rule depends on, and what of it counts."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from anchorflow.config import digests, registry
from anchorflow.config.digests import (
    COUNTING,
    NOT_COUNTING,
    code_of,
    counts,
    digest,
    is_schema,
    tracked,
)

SCRIPTS = Path(__file__).parents[2] / "workflow" / "scripts"


def forget() -> None:
    for function in vars(digests).values():
        if hasattr(function, "cache_clear"):
            function.cache_clear()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package: a imports b, b imports c, c imports a again; d stands alone; e is a subpackage."""
    files = {
        "__init__.py": '"""Nothing."""\n',
        "a.py": "from anchorflow.b import x\n",
        "b.py": "import os\nimport anchorflow.c\nx = 1\n",
        "c.py": "from anchorflow import a\n",
        "d.py": "import numpy\ny = 2\n",
        "e/__init__.py": "from anchorflow.d import y\n",
        "e/lonely.py": "z = 3\n",
        "store/logs.py": "from anchorflow.config.shards import examples\n",
        "config/shards.py": "examples = 1\n",
        "schemas/__init__.py": "",
        "schemas/fields.py": (
            "from anchorflow.config.table import Column\n"
            "MODEL = Column('model', 'string', 'a model')\n"
            "TASK = Column('task', 'string', 'a task')\n"
        ),
        "schemas/made.py": (
            "from anchorflow.config.table import Column, table\n"
            "from anchorflow.schemas import fields\n"
            "from anchorflow.schemas.fields import TASK\n"
            "_OF = {'s': 'a sum', 'm': 'a mean'}\n"
            "SHORT = table('short', 'one per model', fields.MODEL, keys='model')\n"
            "LONG = table(\n"
            "    'long', 'one per task', TASK,\n"
            "    *(Column(k, 'list<int32>', v, 'nats') for k, v in _OF.items()),\n"
            "    keys='task')\n"
        ),
    }
    folder = tmp_path / "anchorflow"
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    for module in (digests, registry):
        monkeypatch.setattr(module, "PACKAGE", folder)
    forget()
    yield folder
    forget()


def params(package: Path, text: str, *modules: str) -> dict[str, str]:
    """Digests by file of a script with this text."""
    script = package.parent / "script.py"
    script.write_text(text, encoding="utf-8")
    forget()
    found = code_of(script, modules)
    assert found.pop("numbers") == f"numbers {digests.NUMBERS}"
    for name, labels in found.items():
        folder = "" if name == "code_anchorflow" else f"{name.removeprefix('code_')}/"
        assert all(label.startswith(folder) for label in labels)
    return dict(label.split() for labels in found.values() for label in labels)


def files(package: Path, text: str, *modules: str) -> set[str]:
    return set(params(package, text, *modules)) - {"scripts/script.py"}


@pytest.mark.parametrize(
    "text",
    [
        "from anchorflow.a import x\n",
        "import anchorflow.a\n",
        "from anchorflow import a\n",
        "def run():\n    from anchorflow.a import x\n",
        "if __name__ == '__main__':\n    import anchorflow.a as b\n",
        "import anchorflow.a, os\n",
        "try:\n    pass\nexcept OSError:\n    import anchorflow.a\n",
        "try:\n    pass\nfinally:\n    import anchorflow.a\n",
        "for _ in ():\n    pass\nelse:\n    import anchorflow.a\n",
        "with open('a'):\n    import anchorflow.a\n",
        "match 1:\n    case 1:\n        import anchorflow.a\n",
        "class A:\n    def of(self):\n        import anchorflow.a\n",
    ],
)
def test_modules_are_found_through_others_and_around_circles(package: Path, text: str) -> None:
    assert files(package, text) == {"a.py", "b.py", "c.py"}


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("d.py", "from .b import x\n"),
        ("e/lonely.py", "from ..b import x\n"),
        ("e/__init__.py", "from .. import b\n"),
        ("d.py", "from . import b\n"),
    ],
)
def test_modules_are_found_by_their_place_beside_a_module(
    package: Path, file: str, text: str
) -> None:
    (package / file).write_text(text, encoding="utf-8")
    module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    assert "b.py" in files(package, f"import anchorflow.{module}\n")


@pytest.mark.parametrize(
    "text", ["import anchorflow.e\n", "from anchorflow import e\n", "import anchorflow.e as e\n"]
)
def test_a_subpackage_is_its_init_and_what_that_imports(package: Path, text: str) -> None:
    assert files(package, text) == {"e/__init__.py", "d.py"}


def test_the_init_of_a_subpackage_comes_with_its_modules_also_if_a_rule_names_them(
    package: Path,
) -> None:
    lonely = {"e/lonely.py", "e/__init__.py", "d.py"}
    assert files(package, "from anchorflow.e.lonely import z\n") == lonely
    assert files(package, "import os\n", "e/lonely.py") == lonely
    assert files(package, "import os\n", "b.py") == {"a.py", "b.py", "c.py"}


def test_a_page_s_template_comes_with_the_module_of_its_name(package: Path) -> None:
    for name in ("d.html", "d.css", "d.js", "d.txt", "c.html"):
        (package / name).touch()
    found = files(package, "from anchorflow.d import y\n")
    assert found == {"d.css", "d.html", "d.js", "d.py"}


def test_other_packages_are_left_out(package: Path) -> None:
    assert files(package, "import anchorflower.a\nfrom pathlib import Path\n") == set()


def test_modules_that_move_bytes_do_not_count(package: Path) -> None:
    """But what counts, and they import, does."""
    assert files(package, "from anchorflow.store import logs\n") == {"config/shards.py"}


TEXT = '''"""What it is."""

import logging

log = logging.getLogger(__name__)


class Shape:
    """A shape."""

    sides: int = 3
    """How many."""


def area(shape, height):
    """Half of what it would be."""
    if height < 0:
        raise ValueError(f"a height of {height} can't be")
    log.info("Height %g", height)
    return shape.sides * height / 2  # half
'''


def changed(tmp_path: Path, old: str, new: str) -> bool:
    """Whether the digest of TEXT differs when a piece of it is replaced."""
    assert old in TEXT
    digests = []
    for text in (TEXT, TEXT.replace(old, new)):
        path = tmp_path / "module.py"
        path.write_text(text, encoding="utf-8")
        forget()
        digests.append(digest(path))
    return digests[0] != digests[1]


@pytest.mark.parametrize(
    ("old", "new", "counts"),
    [
        ("What it is.", "What it was.", False),
        ("A shape.", "Any shape.", False),
        ("How many.", "As many.", False),
        ("Half of what it would be.", "Half.", False),
        ("  # half", "", False),
        ("\n\n\nclass", "\n\nclass", False),
        ("(shape, height)", "(\n    shape,\n    height,\n)", False),
        ("/ 2", "/ 3", True),
        ("/ 2", "/ 2.0", True),
        ("sides: int = 3", "sides: int = 4", True),
        ("height < 0", "height <= 0", True),
        ("shape.sides *", "shape.edges *", True),
        ("log.info(", "shape.info(", True),
        ("return shape", "yield shape", True),
        ("import logging", "import logging\nimport numpy", True),
    ],
)
def test_what_may_make_a_number_counts_and_nothing_else(
    tmp_path: Path, old: str, new: str, counts: bool
) -> None:
    assert changed(tmp_path, old, new) == counts


@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [
        ("fields", "'a model'", "'the model'", set()),
        ("fields", "a task", "the task", set()),
        ("fields", "'model', 'string'", "'model', 'int32'", {"SHORT", "made.py"}),
        ("fields", "'task'", "'label'", {"LONG", "made.py"}),
        ("fields", "TASK = ", "NEW = Column('new', 'string', 'new')\nTASK = ", set()),
        ("made", "'a sum'", "'the sum'", set()),
        ("made", "one per task", "a row per task", set()),
        ("made", "'nats'", "'bits'", set()),
        ("made", "'s':", "'t':", {"LONG", "made.py"}),
        ("made", "list<int32>", "list<int64>", {"LONG", "made.py"}),
        ("made", "keys='model'", "keys=''", {"SHORT", "made.py"}),
        ("made", "'a mean'}", "'a mean', 'n': 'number'}", {"LONG", "made.py"}),
    ],
)
def test_of_schemas_the_tables_that_are_used_count_without_descriptions(
    package: Path, file: str, old: str, new: str, expected: set[str]
) -> None:
    def digests() -> dict[str, str]:
        of_names = {
            name: params(package, f"from anchorflow.schemas.made import {name}\n")
            for name in ("SHORT", "LONG")
        }
        of_names["made.py"] = params(package, "import os\n", "schemas/made.py")
        return {name: found["schemas/made.py"] for name, found in of_names.items()}

    before, path = digests(), package / "schemas" / f"{file}.py"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    after = digests()
    assert {name for name in before if before[name] != after[name]} == expected


def test_declarations_of_tables_have_no_function_that_makes_a_number() -> None:
    """Of a schema, columns and tables count, and no function."""
    for path in filter(is_schema, Path(digests.__file__).parents[1].rglob("*.py")):
        functions = set(re.findall(r"^ *def (\w+)", path.read_text(encoding="utf-8"), re.M))
        # What makes a summary's table, and what refuses a configuration.
        known = {"summary_of", "words_of"} if path.stem == "summaries" else {"check"}
        assert functions <= known, path


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.py")), ids=lambda path: path.stem)
def test_every_script_can_be_followed(script: Path) -> None:
    params = code_of(script)
    assert [file.split()[0] for file in params["code_scripts"]] == [f"scripts/{script.name}"]
    files = tracked(params)
    assert len(files) == sum(len(files) for name, files in params.items() if name != "numbers")
    assert all(digest(path) == known for path, known in files.items() if not is_schema(path))


def test_summarizing_flow_needs_its_statistics_but_no_model() -> None:
    params = code_of(SCRIPTS / "summarize.py", ["analyses/flow/summarize.py"])
    assert params.pop("numbers")
    found = {file.split()[0] for files in params.values() for file in files}
    assert {"analyses/flow/summarize.py", "statistics/by_task.py"} <= found
    assert {"statistics/estimates.py", "analyses/flow/__init__.py", "scripts/summarize.py"} <= found
    assert {"code_model", "code_prepare", "code_store"}.isdisjoint(params)
    assert "analyses/flow/measure.py" not in found


@pytest.mark.parametrize("module", ["model", "untrained"])
def test_weights_do_not_depend_on_how_a_run_is_divided(module: str) -> None:
    params = code_of(SCRIPTS / "prepare.py", [f"prepare/{module}.py"])
    files = {file.name for file in tracked(params)}
    assert files.isdisjoint({"fields.py", "shards.py"})


def test_every_place_that_does_not_count_is_there() -> None:
    package = Path(digests.__file__).parents[1]
    for place in NOT_COUNTING:
        assert (package / place).exists()
        assert place.endswith(".py") or not counts(package / place / "any.py")
    for place in COUNTING:
        assert counts(package / place)
    assert counts(package / "analyses" / "flow" / "measure.py")
    assert counts(package / "model" / "batches.py")
