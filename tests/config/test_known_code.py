"""What is remembered of files of code: as long as nothing it depends on is another."""

from pathlib import Path

import pytest

from anchorflow.config.known_code import Known


class Found:
    """Counts how often something is found out."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> list[str]:
        self.times += 1
        return ["found"]


@pytest.fixture
def module(tmp_path: Path) -> Path:
    (tmp_path / "module.py").write_text("x = 1\n", encoding="utf-8")
    (tmp_path / "reader.py").write_text("read\n", encoding="utf-8")
    return tmp_path / "module.py"


def known(module: Path, *files: str) -> Known:
    names = [Path(file) for file in files]
    return Known(module.parent, [module.with_name("reader.py")], lambda: names)


def test_what_was_kept_is_not_found_out_again(module: Path) -> None:
    find = Found()
    first = known(module)
    assert (
        first.get(module.read_bytes(), "imports", find)
        == first.get(module.read_bytes(), "imports", find)
        == ["found"]
    )
    first.keep()
    assert known(module).get(module.read_bytes(), "imports", find) == ["found"]
    assert find.times == 1
    known(module).get(module.read_bytes(), "digest", find)
    assert find.times == 2


@pytest.mark.parametrize("changed", ["module.py", "reader.py"])
def test_other_contents_are_read_anew(module: Path, changed: str) -> None:
    find, first = Found(), known(module)
    first.get(module.read_bytes(), "imports", find)
    first.keep()
    module.with_name(changed).write_text("x = 2\n", encoding="utf-8")
    known(module).get(module.read_bytes(), "imports", find)
    assert find.times == 2


def test_a_file_that_imports_can_mean_from_now_on_has_all_read_anew(module: Path) -> None:
    find, first = Found(), known(module, "a.py")
    first.get(module.read_bytes(), "imports", find)
    first.keep()
    known(module, "a.py", "a/__init__.py").get(module.read_bytes(), "imports", find)
    assert find.times == 2


def test_files_that_come_and_go_meanwhile_leave_nothing(module: Path) -> None:
    find, names = Found(), [Path("a.py")]
    for _ in range(2):
        first = Known(module.parent, [], lambda: names)
        first.get(module.read_bytes(), "imports", find)
        names.append(Path("b.py"))
        first.keep()
        names.pop()
    assert find.times == 2


def test_it_is_kept_in_its_folder_wherever_the_process_is_at_its_end(
    module: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere" / "kept").mkdir(parents=True)
    (tmp_path / "kept").mkdir()
    monkeypatch.chdir(tmp_path)
    first = Known(Path("kept"), [], list)
    first.get(b"", "imports", Found())
    monkeypatch.chdir("elsewhere")
    first.keep()
    assert [path.parent.parent for path in tmp_path.rglob("anchorflow_code.json")] == [tmp_path]


def test_an_error_is_not_remembered(module: Path) -> None:
    def fail() -> None:
        raise ValueError

    first = known(module)
    for _ in range(2):
        with pytest.raises(ValueError):
            first.get(module.read_bytes(), "imports", fail)


@pytest.mark.parametrize("content", [b"", b"[]", b'{"state": 1}', b"\xff", b'{"found": []}'])
def test_a_damaged_file_is_as_good_as_none(module: Path, content: bytes) -> None:
    find, first = Found(), known(module)
    (module.parent / "anchorflow_code.json").write_bytes(content)
    assert known(module).get(module.read_bytes(), "imports", find) == ["found"]
    first.get(module.read_bytes(), "imports", find)
    first.keep()
    assert known(module).get(module.read_bytes(), "imports", find) == ["found"]
    assert find.times == 2


def test_without_its_folder_nothing_is_kept(module: Path) -> None:
    first = Known(module.parent / "none", [], list)
    first.get(module.read_bytes(), "imports", Found())
    first.keep()
    assert not (module.parent / "none").exists()


def test_of_too_many_entries_those_of_use_are_kept(
    module: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anchorflow.config.known_code._MOST", 2)
    find, first = Found(), known(module)
    for what in ("a", "b"):
        first.get(module.read_bytes(), what, find)
    first.keep()
    second = known(module)
    for what in ("b", "c"):
        second.get(module.read_bytes(), what, find)
    second.keep()
    third = known(module)
    for what in ("b", "c"):
        third.get(module.read_bytes(), what, find)
    assert find.times == 3
    third.get(module.read_bytes(), "a", find)
    assert find.times == 4
