"""A server on this machine that speaks as much of the Hugging Face Hub's protocol as is needed."""

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

Repositories = Mapping[str, Mapping[str, Mapping[str, bytes]]]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "_Hub"

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def do_HEAD(self) -> None:
        self._answer(False)

    def do_GET(self) -> None:
        self._answer(True)

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._answer(True, content)

    def _answer(self, with_body: bool, posted: bytes = b"") -> None:
        parts = [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]
        self.server.asked.append(f"{self.command} {self.path}")
        if parts[0] == "api":
            parts = parts[1:]
        if parts[0] not in ("datasets", "models"):  # files of models have no such prefix
            parts = ["models", *parts]
        if len(parts) < 3:
            return self._refuse("RepoNotFound")
        repository, (verb, revision, *path) = "/".join(parts[1:3]), (*parts[3:], "", "")[:99]
        revisions = self.server.repositories.get(repository)
        if revisions is None:
            return self._refuse("RepoNotFound")
        commit = self.server.branches.get(revision or "main", revision)
        if commit not in revisions:
            return self._refuse("RevisionNotFound")
        files, name = revisions[commit], "/".join(part for part in path if part)
        if verb == "resolve":
            if name not in files:
                return self._refuse("EntryNotFound")
            return self._send(files[name], with_body, commit, name in self.server.cut_off)
        if verb == "revision" or not verb:
            told: Any = {"id": repository, "sha": commit, "siblings": [], "tags": []}
        elif verb == "tree":
            told = _inside(name, files, "recursive=true" in self.path)
            if not told:
                return self._refuse("EntryNotFound")
        elif verb == "paths-info":
            wanted = json.loads(posted)["paths"]
            told = [entry for path in wanted if (entry := _entry(path, files))]
        else:
            return self._refuse("EntryNotFound")
        return self._send(json.dumps(told).encode(), with_body, commit)

    def _send(self, body: bytes, with_body: bool, commit: str, cut_off: bool = False) -> None:
        self.send_response(200)
        self.send_header("X-Repo-Commit", commit)
        self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        if with_body:
            self.wfile.write(body[: len(body) // 2] if cut_off else body)
        if cut_off and with_body:
            self.close_connection = True

    def _refuse(self, code: str) -> None:
        self.send_response(404)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()


def _entry(path: str, files: Mapping[str, bytes]) -> dict[str, Any] | None:
    if path in files:
        oid = hashlib.sha1(files[path]).hexdigest()
        return {"type": "file", "path": path, "size": len(files[path]), "oid": oid}
    is_folder = any(file.startswith(f"{path}/") for file in files)
    return {"type": "directory", "path": path, "size": 0, "oid": "0" * 40} if is_folder else None


def _inside(
    folder: str, files: Mapping[str, bytes], all_below: bool
) -> list[dict[str, Any] | None]:
    start = PurePosixPath(folder)
    inside = {
        place for file in files for place in (PurePosixPath(file), *PurePosixPath(file).parents)
    }
    found = sorted(
        place
        for place in inside
        if place != start and start in place.parents and (all_below or place.parent == start)
    )
    return [_entry(str(place), files) for place in found]


class _Hub(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, repositories: Repositories, branches: Mapping[str, str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories, self.branches = repositories, branches
        self.asked: list[str] = []
        self.cut_off: set[str] = set()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def hub(repositories: Repositories, branches: Mapping[str, str]) -> Iterator[_Hub]:
    """Serve repositories of data sets or models for the block: all files' contents by commit.

    All repositories have the same branches, of which the commits are given.
    """
    server = _Hub(repositories, branches)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
