"""Which commits the branches and tags in a configuration stand for, looked up once and kept.

Planning does this, since rules list the commit among their ``params``: a new one makes anew what
depends on it, and no job takes another one than its run, which tells its jobs by the environment.
The file lies beside the results, and whoever deletes it, or a part of it, has the names looked up
again.
"""

import datetime
import json
import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from anchorflow.config.errors import InputError
from anchorflow.config.job_environment import PINNED
from anchorflow.config.named_models import of_hub
from anchorflow.store.replacing import replacing

LOCK = Path("models.lock.yaml")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_HEAD = """\
# The commits of the Hugging Face Hub that revisions in the configuration stand for, since they
# were first looked up. Without an entry, or this file, they are looked up again, and what depends
# on another commit is computed anew.
"""


def pin(config: Mapping[str, Any], may_look_up: bool = True) -> list[str]:
    """Put commits in place of the revisions of models and adapters, in place.

    Returns what was looked up, in sentences. Jobs of a run may not look up: its commits are known.
    """
    known, said = _read(), []
    began = {} if may_look_up else json.loads(os.environ.get(PINNED, "{}"))
    used = {}
    for key, entry in of_hub(config["models"]):
        if _COMMIT.fullmatch(entry["revision"]):
            continue
        asked = f"{entry['repository']}@{entry['revision']}"
        if asked not in known:
            if not may_look_up:
                raise InputError(
                    f"{key}: {LOCK} has no {asked}, with which the run began; start it again."
                )
            commit = _look_up(key, entry["repository"], entry["revision"])
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            known[asked] = {"commit": commit, "looked_up": now}
            said.append(f"{key}: {asked} is commit {commit}, written down in {LOCK}.")
        commit = known[asked]["commit"]
        if began.get(asked, commit) != commit:
            raise InputError(
                f"{key}: {LOCK} says {commit} for {asked}, and the run began with {began[asked]}; "
                "start it again."
            )
        entry["revision"] = used[asked] = commit
    if may_look_up:
        os.environ[PINNED] = json.dumps(used)
    if said:
        with replacing(LOCK) as temporary:
            text = yaml.safe_dump(known, sort_keys=True)
            temporary.write_text(_HEAD + text, encoding="utf-8")
    return said


def _read() -> dict[str, Any]:
    if not LOCK.exists():
        return {}
    try:
        known = yaml.safe_load(LOCK.read_text(encoding="utf-8")) or {}
        if all(_COMMIT.fullmatch(entry["commit"]) for entry in known.values()):
            return dict(known)
    except (yaml.YAMLError, ValueError, AttributeError, TypeError, KeyError, OSError):
        pass
    raise InputError(
        f"{LOCK}: it does not give a commit of 40 hexadecimal digits for every revision; restore "
        "it, or delete it to look them up again."
    )


def _look_up(key: str, repository: str, revision: str) -> str:
    """The commit of a branch or tag now; without a connection, that of the copy in the cache."""
    from huggingface_hub import snapshot_download  # which most plans do without
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    logging.getLogger("httpx").setLevel(logging.WARNING)  # else, a line for every request
    try:
        folder = snapshot_download(
            repository, revision=revision, allow_patterns=["config.json", "adapter_config.json"]
        )
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        raise InputError(
            f"{key}: could not find {repository} at revision {revision} on the Hugging Face Hub "
            f"({type(error).__name__}), and there is no folder {repository} here; check the names, "
            "or the connection."
        ) from None
    return Path(folder).name
