"""Which modules a script needs: all that it imports, through others too, and nothing else."""

from pathlib import Path

import pytest

from anchorflow import sources
from anchorflow.sources import modules_imported_by

SCRIPTS = Path(__file__).parent.parent / "workflow" / "scripts"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package in which a imports b, b imports c, c imports a again, and d stands alone."""
    folder = tmp_path / "anchorflow"
    folder.mkdir()
    (folder / "__init__.py").write_text('"""Nothing."""\n', encoding="utf-8")
    (folder / "a.py").write_text("from anchorflow.b import x\n", encoding="utf-8")
    (folder / "b.py").write_text("import os\nimport anchorflow.c\n", encoding="utf-8")
    (folder / "c.py").write_text("from anchorflow import a\n", encoding="utf-8")
    (folder / "d.py").write_text("import numpy\n", encoding="utf-8")
    monkeypatch.setattr(sources, "_PACKAGE", folder)
    return folder


def imported(package: Path, code: str) -> list[str]:
    """Names of the modules that a script of this code imports."""
    script = package.parent / "script.py"
    script.write_text(code, encoding="utf-8")
    sources._direct_imports.cache_clear()
    return [Path(path).name for path in modules_imported_by(script)]


@pytest.mark.parametrize(
    "code",
    [
        "from anchorflow.a import x\n",
        "import anchorflow.a\n",
        "from anchorflow import a\n",
        "def run():\n    from anchorflow.a import x\n",
        "if __name__ == '__main__':\n    import anchorflow.a as b\n",
    ],
)
def test_modules_are_found_through_others_and_around_circles(package: Path, code: str) -> None:
    assert imported(package, code) == ["a.py", "b.py", "c.py"]


def test_a_module_that_imports_no_other_comes_alone(package: Path) -> None:
    assert imported(package, "import json\nfrom anchorflow.d import y\n") == ["d.py"]


def test_a_page_s_template_comes_with_the_module_of_its_name(package: Path) -> None:
    for name in ("d.html", "d.css", "d.js", "d.txt", "e.html"):
        (package / name).touch()
    assert imported(package, "from anchorflow.d import y\n") == ["d.css", "d.html", "d.js", "d.py"]


def test_what_is_no_module_of_the_package_is_left_out(package: Path) -> None:
    code = "import anchorflow\nimport anchorflower.a\nfrom pathlib import Path\nfrom . import a\n"
    assert imported(package, code) == []


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.py")), ids=lambda path: path.stem)
def test_every_script_depends_on_existing_modules_of_the_package(script: Path) -> None:
    modules = [Path(path) for path in modules_imported_by(script)]
    assert "logs.py" in {module.name for module in modules}
    assert all(module.is_file() for module in modules)
    assert modules == sorted(set(modules))


def test_summarizing_flow_needs_its_statistics_but_no_model() -> None:
    names = {Path(path).stem for path in modules_imported_by(SCRIPTS / "summarize_flow.py")}
    assert {"flow", "draws", "statistics", "summaries", "tables", "errors", "logs"} <= names
    assert names.isdisjoint({"__init__", "models", "saliency", "prompts", "deep"})
