"""The atlas: scores as layers by heads, which others read as plain JSON."""

import json
from pathlib import Path

from anchorflow.analyses.heads.atlas import atlas, write_atlas
from anchorflow.analyses.heads.schema import SCORE
from anchorflow.analyses.heads.summarize import summarize_heads
from constructed.heads import heads
from constructed.interventions import prompts

SCORES = {
    "label_copy": {(0, 0): [1.0, 3.0], (0, 1): [-4.0, -4.0], (1, 0): [0.5, 0.5], (1, 1): [0, 1.0]},
    "writes_text": {(0, 0): [2.0, 2.0], (0, 1): [0.0, 0.0], (1, 0): [1.0, 1.0], (1, 1): [3.0, 3.0]},
}


def test_every_score_is_a_matrix_with_its_definition(tmp_path: Path) -> None:
    summary = summarize_heads(heads(SCORES, {"label_copy": 0.5}), prompts(), 0.95)
    card = {"name": "tiny", "revision": "abc", "layers": 2, "files": {}}
    of_task = {"news": {"template": "{text}{label}", "labels": [" A", " B"]}}
    write_atlas(tmp_path / "tiny.json", atlas(summary, card, of_task))
    read = json.loads((tmp_path / "tiny.json").read_text(encoding="utf-8"))
    assert read["model"] == {"name": "tiny", "revision": "abc"}
    assert read["prompts"] == of_task
    copied = read["scores"]["label_copy"]
    assert copied["value"]["mean"] == [[2.0, -4.0], [0.5, 0.5]]
    assert copied["difference"]["mean"] == [[1.5, -4.5], [0.0, 0.0]]
    assert (
        copied["definition"] == "what label words contribute" or "own label" in copied["definition"]
    )
    assert read["scores"]["writes_text"]["definition"].startswith("its parts")
    for score in read["scores"].values():
        assert score["definition"] in SCORE.metadata[b"description"].decode()
