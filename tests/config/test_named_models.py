"""Short names of models, and what they stand for."""

from pathlib import Path
from typing import Any

import pytest

from anchorflow.config.errors import InputError
from anchorflow.config.named_models import check_source, files_of_model, of_hub, write_out

HUB = {"source": "hub", "repository": "org/name", "revision": "main"}
HERE = {"source": "local", "path": "org/here"}


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("org/name", HUB),
        ("gpt2", {**HUB, "repository": "gpt2"}),
        ("org/here", HERE),  # a folder
        ("./org/name", {"source": "local", "path": "./org/name"}),
        ("/org/name", {"source": "local", "path": "/org/name"}),
        ("org/name/more", {"source": "local", "path": "org/name/more"}),
        ("org/model.GGUF", {"source": "gguf", "files": ["org/model.GGUF"]}),
        ("package:model.gguf", {"source": "gguf", "files": ["package:model.gguf"]}),
        ({"repository": "org/name", "dtype": "bfloat16"}, {**HUB, "dtype": "bfloat16"}),
        ({**HUB, "revision": "v1"}, {**HUB, "revision": "v1"}),
        ({"path": "m", "adapter": "org/here"}, {"source": "local", "path": "m", "adapter": HERE}),
        ({"path": "m", "adapter": "org/name"}, {"source": "local", "path": "m", "adapter": HUB}),
        ({"repository": "a/b", "path": "m"}, {"repository": "a/b", "path": "m"}),  # refused later
        (5, 5),
    ],
)
def test_a_name_says_what_it_is(
    given: Any, meant: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "org" / "here").mkdir(parents=True)
    models = {"mine": given}
    write_out(models)
    assert models["mine"] == meant


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"dtype": "float32"}, r"m: it has to name where its weights are by one of repository, pa"),
        ({"repository": "a/b", "path": "m"}, r"m: it has to name where"),
        ({"path": ".", "revision": "v1"}, r"m\.revision: it is for hub, and the source is local;"),
        ({"repository": "a/b", "sha256": "0"}, r"m\.sha256: it is for gguf, and the source is hub"),
        ({"repository": "a/b", "adapter": "./no"}, r"m\.adapter: './no' is not the folder of an"),
        ({"repository": "a/b", "adapter": {}}, r"m\.adapter: it has to name"),
    ],
)
def test_models_of_no_source_or_of_two_are_refused(settings: Any, sentence: str) -> None:
    models = {"m": settings}
    write_out(models)
    with pytest.raises(InputError, match=sentence):
        check_source("m", models["m"])


def test_files_that_nothing_pins_are_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in ("m/config.json", "m/model.safetensors", "m/notes.md", "l/adapter_config.json"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    monkeypatch.chdir(tmp_path)
    local = {"source": "local", "path": "m", "adapter": {"source": "local", "path": "l"}}
    watched = ["m/config.json", "m/model.safetensors", "l/adapter_config.json"]
    assert files_of_model("mine", local) == watched
    (tmp_path / "m.gguf").touch()
    assert files_of_model("mine", {"source": "gguf", "files": ["m.gguf"]}) == ["m.gguf"]
    assert files_of_model("mine", {"source": "gguf", "files": ["no"], "sha256": "0" * 64}) == []
    assert files_of_model("mine", HUB) == []
    with pytest.raises(InputError, match=r"models\.mine\.files: there is no file no; correct"):
        files_of_model("mine", {"source": "gguf", "files": ["no"]})


def test_an_adapter_may_be_on_the_hub_and_its_model_not() -> None:
    models: dict[str, Any] = {"a": "./m", "b": {"path": "./m", "adapter": "org/name"}, "c": "org/c"}
    write_out(models)
    assert [key for key, _ in of_hub(models)] == ["models.b.adapter", "models.c"]
