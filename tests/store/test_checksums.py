"""Fingerprints of large files, and JSON with a checksum."""

import os
import time
from pathlib import Path

import pytest

from anchorflow.config.errors import InputError
from anchorflow.store.checksums import changed_file, fingerprints, read_json, write_json


def test_a_large_file_is_read_again_only_if_it_was_touched_after_its_fingerprint(
    tmp_path: Path,
) -> None:
    large, card = tmp_path / "weights", tmp_path / "card"
    large.write_bytes(bytes(2**24 + 8))
    known = fingerprints([large])
    time.sleep(0.02)
    card.touch()
    assert changed_file(tmp_path, known, card) is None
    before = large.stat().st_mtime_ns
    time.sleep(0.02)
    large.write_bytes(bytes(2**24 + 7) + b"x")  # of the same size, and as old as it was
    os.utime(large, ns=(before, before))
    assert changed_file(tmp_path, known, card) == large
    large.write_bytes(bytes(2**24 + 8))  # put back
    assert changed_file(tmp_path, known, card) is None
    large.write_bytes(bytes(2**24 + 7))
    assert changed_file(tmp_path, known, card) == large
    large.unlink()
    assert changed_file(tmp_path, known, card) == large


def test_json_with_a_checksum_is_read_back_and_anything_else_refused(tmp_path: Path) -> None:
    path, content = tmp_path / "card.json", {"name": "café", "difference": 1.5e-07, "files": {}}
    write_json(path, content)
    assert read_json(path, "mend it") == content
    for damaged in ("", "[]", "{}", "7", path.read_text(encoding="utf-8").replace("1.5", "2.5")):
        path.write_text(damaged, encoding="utf-8")
        with pytest.raises(InputError, match=r"card\.json: missing or damaged; mend it\."):
            read_json(path, "mend it")
