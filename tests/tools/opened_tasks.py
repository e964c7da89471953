"""A task of a tiny model, prepared in a folder as the workflow does it."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl

from anchorflow.explore.task import OpenedTask
from anchorflow.measurement import defaults
from anchorflow.prepare.prompts import PromptBuilder
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.samples import SAMPLES
from anchorflow.store.parquet import write_frame

WORDING: dict[str, Any] = {
    **{"template": "Review: {text}\nSentiment:{label}", "fields": ["text"], "instruction": ""},
    **{"separator": "\n", "labels": [" Negative", " Positive"], "chat": None},
}
TEXTS = ("a bore from start to end", "a delight, warm and clever")
QUERY = "I laughed and cried"


def prepared(folder: Path, resolved: Path, **wording: Any) -> OpenedTask:
    """The task ``reviews`` of the resolved model, with two demonstrations, in a new folder."""
    wording = {**WORDING, **wording}
    several = len(wording["fields"]) > 1
    texts = [f"{text}\x1fand more" if several else text for text in (*TEXTS, QUERY)]
    for kind in ("model", "tokenizer"):
        (folder / f"{kind}s").mkdir()
        os.symlink(resolved / kind, folder / f"{kind}s" / "tiny")
    sample = {
        **{"task": "reviews", "seed": 3, "demonstrations": "fixed", "example": 0, "label": 1},
        **{"text": texts[2], "demonstration_texts": texts[:2], "demonstration_labels": [0, 1]},
        "demonstration_rows": [0, 1],
    }
    samples = pl.DataFrame([sample], schema=frame_schema(SAMPLES))
    prompts = PromptBuilder.open(folder / "tokenizers/tiny", wording, "tiny", "reviews")
    write_frame(folder / "samples/reviews/3.parquet", SAMPLES, samples, {})
    write_frame(folder / "prompts/tiny/reviews/3.parquet", PROMPTS, prompts.build(samples), wording)
    config = {**defaults(), "seeds": [3], "scoring": "first_token"}
    return OpenedTask(config, "tiny", "reviews", folder)


@contextmanager
def running(task: OpenedTask, token: str, once: str = "") -> Iterator[int]:
    """A server of the live page in a thread, and its port."""
    import uvicorn  # of the extra "explore", as the server

    from anchorflow.explore.server import Explorer, application

    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        app = application(Explorer(task), port, token, once)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            yield port
        finally:
            server.should_exit = True
            thread.join(20)
            assert not thread.is_alive()
