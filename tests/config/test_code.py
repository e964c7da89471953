"""Which code a rule depends on, and what of it counts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from anchorflow.config import code
from anchorflow.config.code import COUNTING, NOT_COUNTING, code_of, counts, digest
from anchorflow.config.errors import InputError

SCRIPTS = Path(__file__).parents[2] / "workflow" / "scripts"


def forget() -> None:
    for function in vars(code).values():
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
        "e/f.py": "from . import g\n",
        "e/g.py": "from ..d import y\n",
        "e/lonely.py": "z = 3\n",
        "store/logs.py": "import importlib\nimportlib.import_module('anchorflow.d')\n",
        "schemas/fields.py": (
            "def field(name, kind, description): ...\n"
            "MODEL = field('model', str, 'a model')\n"
            "TASK = field('task', str, 'a task')\n"
            "BOTH = (MODEL, TASK)\n"
        ),
    }
    folder = tmp_path / "anchorflow"
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(code, "_PACKAGE", folder)
    monkeypatch.setattr(code, "_known", None)
    forget()
    yield folder
    forget()


def params(package: Path, text: str, *modules: str) -> dict[str, str]:
    """Digests by file of a script with this text."""
    script = package.parent / "script.py"
    script.write_text(text, encoding="utf-8")
    forget()
    values = [value(None) for value in code_of(script, modules).values()]
    return dict(value.split() for value in values)


def files(package: Path, text: str, *modules: str) -> set[str]:
    return set(params(package, text, *modules)) - {"numbers", "scripts/script.py"}


@pytest.mark.parametrize(
    "text",
    [
        "from anchorflow.a import x\n",
        "import anchorflow.a\n",
        "from anchorflow import a\n",
        "def run():\n    from anchorflow.a import x\n",
        "if __name__ == '__main__':\n    import anchorflow.a as b\n",
        "import anchorflow.a, os\n",
    ],
)
def test_modules_are_found_through_others_and_around_circles(package: Path, text: str) -> None:
    assert files(package, text) == {"a.py", "b.py", "c.py"}


@pytest.mark.parametrize(
    "text",
    ["import anchorflow.e\n", "from anchorflow import e\n", "import anchorflow.e as e\n"],
)
def test_a_subpackage_is_its_init_and_what_that_imports(package: Path, text: str) -> None:
    assert files(package, text) == {"e/__init__.py", "d.py"}


def test_the_init_of_a_subpackage_comes_with_its_modules(package: Path) -> None:
    found = files(package, "from anchorflow.e.lonely import z\n")
    assert found == {"e/lonely.py", "e/__init__.py", "d.py"}


def test_relative_imports_are_followed(package: Path) -> None:
    found = files(package, "import anchorflow.e.f\n")
    assert found == {"e/f.py", "e/g.py", "e/__init__.py", "d.py"}


def test_a_module_named_by_the_rule_is_followed_too(package: Path) -> None:
    assert files(package, "import os\n", "b.py") == {"a.py", "b.py", "c.py"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("import importlib\n", r"script\.py:1: such an import can hide which code is run"),
        ("from importlib import import_module as load\n", r"can hide which code is run"),
        ("import importlib.util as found\n", r"can hide which code is run"),
        ("from importlib import util\n", r"can hide which code is run"),
        ("from runpy import run_path\n", r"can hide which code is run"),
        ("loader.import_module(name)\n", r"import_module\(\) hides which code is run"),
        ("__import__('anchorflow.d')\n", r"__import__\(\) hides which code is run"),
        ("exec('import anchorflow.d')\n", r"exec\(\) hides which code is run"),
        ("from anchorflow.d import *\n", r"import \* hides what is imported"),
        ("import anchorflow.missing\n", r"anchorflow\.missing is not there"),
        ("from anchorflow.missing import x\n", r"anchorflow\.missing\.x is not there"),
        ("from . import a\n", r"a relative import outside of the package"),
    ],
)
def test_what_can_t_be_followed_is_an_error(package: Path, text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        files(package, text)


def test_the_init_of_a_module_named_by_the_rule_comes_with_it(package: Path) -> None:
    found = files(package, "import os\n", "e/lonely.py")
    assert found == {"e/lonely.py", "e/__init__.py", "d.py"}


def test_two_files_of_one_key_are_an_error(package: Path) -> None:
    (package / "e_f.py").write_text("x = 1\n", encoding="utf-8")
    with pytest.raises(InputError, match="another file of this rule has the same key"):
        files(package, "import anchorflow.e.f\nimport anchorflow.e_f\n")


def test_resources_and_versions_hide_no_code(package: Path) -> None:
    text = "from importlib.resources import files\nimport importlib.metadata\n"
    assert files(package, text) == set()


def test_a_rule_that_names_a_missing_module_is_an_error(package: Path) -> None:
    with pytest.raises(InputError, match=r"missing\.py: there is no such module"):
        files(package, "import os\n", "missing.py")


def test_a_model_s_eval_is_no_code_that_can_t_be_followed(package: Path) -> None:
    assert files(package, "from anchorflow.d import y\nmodel.eval()\n") == {"d.py"}


def test_a_page_s_template_comes_with_the_module_of_its_name(package: Path) -> None:
    for name in ("d.html", "d.css", "d.js", "d.txt", "c.html"):
        (package / name).touch()
    found = files(package, "from anchorflow.d import y\n")
    assert found == {"d.css", "d.html", "d.js", "d.py"}


def test_other_packages_are_left_out(package: Path) -> None:
    assert files(package, "import anchorflower.a\nfrom pathlib import Path\n") == set()


def test_modules_that_move_bytes_do_not_count(package: Path) -> None:
    assert files(package, "from anchorflow.store import logs\n") == set()


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
    ("old", "new"),
    [
        ("What it is.", "What it was."),
        ("A shape.", "Any shape."),
        ("How many.", "As many."),
        ("Half of what it would be.", "Half."),
        ("  # half", ""),
        ("\n\n\nclass", "\n\nclass"),
        ("(shape, height)", "(\n    shape,\n    height,\n)"),
        ("can't be", "is impossible"),
        ('f"a height of {height} can\'t be"', '"no"'),
        ("Height %g", "The height is %g"),
        ('"""What it is."""\n', '"""What it is."""\n\n__version__ = "2"\n'),
    ],
)
def test_what_makes_no_number_does_not_count(tmp_path: Path, old: str, new: str) -> None:
    assert not changed(tmp_path, old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/ 2", "/ 3"),
        ("/ 2", "/ 2.0"),
        ("sides: int = 3", "sides: int = 4"),
        ("height < 0", "height <= 0"),
        ("shape.sides *", "shape.edges *"),
        ("ValueError", "TypeError"),
        ("return shape", "x = f'{(y := 2)}'\n    return shape"),
        ("log.info(", "log.filter("),
        ('log.info("Height %g", height)', "log.info(f'{(height := 2)}')"),
        ("log.info(", "shape.info("),
        ("return shape", "yield shape"),
        ("import logging", "import logging\nimport numpy"),
    ],
)
def test_what_may_make_a_number_counts(tmp_path: Path, old: str, new: str) -> None:
    assert changed(tmp_path, old, new)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("class A:\n    __call__ = f\n", "class A:\n    __call__ = g\n"),
        ("x = pa.table(columns, 'a')\n", "x = pa.table(columns, 'b')\n"),
        ("x = field('p', 'q', 'low')\n", "x = field('p', 'q', 'high')\n"),
        ("x = MeanSquaredError('low')(f)\n", "x = MeanSquaredError('high')(f)\n"),
        ("x = log.filter('a')\n", "x = log.filter('b')\n"),
        ("warnings.simplefilter('error')\n", "warnings.simplefilter('ignore')\n"),
        ("quantity.unit(1, unit='s')\n", "quantity.unit(1, unit='ms')\n"),
    ],
)
def test_names_that_only_look_alike_count(tmp_path: Path, first: str, second: str) -> None:
    path = tmp_path / "module.py"
    digests = []
    for text in (first, second):
        path.write_text(text, encoding="utf-8")
        forget()
        digests.append(digest(path))
    assert digests[0] != digests[1]


@pytest.mark.parametrize("function", ["numpy.log", "torch.log", "log"])
def test_a_logarithm_is_no_log(tmp_path: Path, function: str) -> None:
    """Of ``log(frame["a"])`` the text counts, which chooses what is computed."""
    path = tmp_path / "module.py"
    digests = []
    for column in "ab":
        path.write_text(f"x = {function}(frame['{column}'])\n", encoding="utf-8")
        forget()
        digests.append(digest(path))
    assert digests[0] != digests[1]


def test_of_a_progress_bar_only_its_words_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    digests = []
    for column, words in [("a", "one"), ("a", "two"), ("b", "one")]:
        path.write_text(f"for x in tqdm(f['{column}'], desc='{words}'): ...\n", encoding="utf-8")
        forget()
        digests.append(digest(path))
    assert digests[0] == digests[1] != digests[2]


def of_fields(package: Path, old: str, new: str, name: str) -> bool:
    """Whether the digest of the fields changes for a script that takes a name from them."""
    script = f"from anchorflow.schemas.fields import {name}\n"
    path = package / "schemas/fields.py"
    before = params(package, script)["schemas/fields.py"]
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    return params(package, script)["schemas/fields.py"] != before


@pytest.mark.parametrize(
    ("old", "new", "name", "expected"),
    [
        ("'a model'", "'the model'", "MODEL", False),
        ("'model', str", "'model', int", "MODEL", True),
        ("'model', str", "'model', int", "TASK", False),
        ("'model', str", "'model', int", "BOTH", True),
        ("BOTH = ", "NEW = field('new', str, 'new')\nBOTH = ", "BOTH", False),
    ],
)
def test_of_schemas_the_columns_that_are_used_count_without_descriptions(
    package: Path, old: str, new: str, name: str, expected: bool
) -> None:
    assert of_fields(package, old, new, name) == expected


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.py")), ids=lambda path: path.stem)
def test_every_script_can_be_followed(script: Path) -> None:
    values = [value(None) for value in code_of(script).values()]
    assert any(value.startswith(f"scripts/{script.name} ") for value in values)
    assert len({value.split()[0] for value in values}) == len(values)


def test_summarizing_flow_needs_its_statistics_but_no_model() -> None:
    values = code_of(SCRIPTS / "summarize.py", ["summarize/flow.py"]).values()
    found = {value(None).split()[0] for value in values}
    assert {"summarize/flow.py", "summarize/by_task.py", "summarize/statistics.py"} <= found
    assert {"schemas/flow.py", "scripts/summarize.py"} <= found
    assert not any(path.startswith(("model/", "measure/", "prepare/", "store/")) for path in found)


def test_every_place_that_does_not_count_is_there() -> None:
    package = Path(code.__file__).parents[1]
    for place in NOT_COUNTING:
        assert (package / place).exists()
        assert place.endswith(".py") or not counts(package / place / "any.py")
    for place in COUNTING:
        assert counts(package / place)
    assert counts(package / "measure" / "saliency.py")
    assert counts(package / "model" / "batches.py")


def test_what_is_remembered_of_a_file_is_of_what_was_read(package: Path) -> None:
    script = package.parent / "script.py"
    script.write_text("from anchorflow.d import y\n", encoding="utf-8")
    before = digest(package / "d.py")
    forget()
    code.remember(package.parent)
    planned = code_of(script)["code_d"]
    (package / "d.py").write_text("import numpy\ny = 3\n", encoding="utf-8")
    assert planned(None) == f"d.py {before}"
    assert code._known is not None
    code._known.keep()
    forget()
    code.remember(package.parent)
    code_of(script)
    ours = digest(package / "d.py")
    code._known = None
    forget()
    assert ours == digest(package / "d.py") != before
