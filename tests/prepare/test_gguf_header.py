"""The quick reader of GGUF headers against gguf's own."""

import sys
from pathlib import Path

import gguf
import numpy as np
import pytest

from anchorflow.config.errors import InputError
from anchorflow.prepare.gguf_files import QuickReader
from anchorflow.prepare.model_sources import model_directory


@pytest.fixture
def file(tmp_path: Path) -> Path:
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama")
    writer.add_token_list(["", "a", "ß", "▁words", "x" * 300])
    writer.add_token_scores([0.5, -1.25, 0.0, 2.0, 3.0])
    writer.add_token_types([1, 2, 3, 4, 5])
    writer.add_array("llama.booleans", [True, False])
    writer.add_array("llama.arrays", [[1, 2], [3]])
    writer.add_context_length(512)
    writer.add_tensor("token_embd.weight", np.arange(64, dtype=np.float32).reshape(2, 32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tmp_path / "model.gguf"


def test_fields_and_tensors_are_those_that_gguf_finds(file: Path) -> None:
    quick, plain = QuickReader(file), gguf.GGUFReader(file)
    assert [str(name) for name in quick.fields] == [str(name) for name in plain.fields]
    for name, field in plain.fields.items():
        ours = quick.fields[name]
        assert (ours.offset, ours.data, ours.types) == (field.offset, field.data, field.types)
        assert len(ours.parts) == len(field.parts)
        for own, theirs in zip(ours.parts, field.parts, strict=True):
            assert own.dtype == theirs.dtype
            assert own.tobytes() == theirs.tobytes()
        assert ours.contents() == field.contents()
    assert quick.get_field("tokenizer.ggml.tokens").contents()[2:4] == ["ß", "▁words"]
    (tensor,) = quick.tensors
    assert np.array_equal(tensor.data, plain.tensors[0].data)


def test_long_arrays_take_no_call_for_each_element(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    own = gguf.GGUFReader._get_field_parts

    def counted(self: gguf.GGUFReader, offset: int, kind: int) -> object:
        calls.append(gguf.GGUFValueType(kind))
        return own(self, offset, kind)

    monkeypatch.setattr(gguf.GGUFReader, "_get_field_parts", counted)
    QuickReader(file)
    assert calls.count(gguf.GGUFValueType.FLOAT32) == 0
    assert calls.count(gguf.GGUFValueType.STRING) == 1  # the architecture's name


def test_without_gguf_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    monkeypatch.delitem(sys.modules, "anchorflow.prepare.gguf_files")
    said = r"models\.tiny: the package gguf, .* is not installed; run pip install 'anchorflow\[work"
    with (
        pytest.raises(InputError, match=said),
        model_directory("tiny", {"source": "gguf", "files": []}, weights=False),
    ):
        pass
