"""Settings files of a workspace: what they say, weakest first, and which of them cannot be read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.core.excludes import ExcludeGlob
from app.core.facts import Client, GitRoots, Kind, Notice, SettingSource
from app.core.flow import Flow, look, read
from app.core.includes import is_git_metadata
from app.core.paths import Paths
from app.core.report import Row


@dataclass(frozen=True, slots=True)
class Configuration:
    """The settings this service knows, merged. None: not said."""

    excludes: tuple[ExcludeGlob, ...] = ()
    auto_memory: bool | None = None
    auto_memory_dir: str | None = None
    additional_directories: tuple[str, ...] = ()
    include_git_instructions: bool | None = None
    language: str | None = None
    output_style: str | None = None
    rows: tuple[Row, ...] = ()
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class _File:
    """``comes_along``: with the project, whoever wrote it."""

    path: str
    source: SettingSource | None
    values: Mapping[str, Any]
    comes_along: bool = False


def configuration(
    client: Client, roots: GitRoots | None, sources: Sequence[SettingSource], paths: Paths
) -> Flow[Configuration]:
    """Reads the settings files of the sources that are on; managed settings are always on and strongest."""
    files: list[_File] = []
    rows: list[Row] = []
    for path, source in _places(client, roots, paths):
        if source is not None and source not in sources:
            continue
        values = yield from _values(path, paths)
        if isinstance(values, str):
            rows.append(Row(path, "skipped", "settings_unreadable", hint=f"{values} The file was ignored."))
        elif values is not None:
            carried = roots is not None and path in roots.carried
            files.append(_File(path, source, values, comes_along=carried or source == "project"))
    return _merged(files, tuple(rows), client, paths)


def _places(client: Client, roots: GitRoots | None, paths: Paths) -> Iterator[tuple[str, SettingSource | None]]:
    folders = list(dict.fromkeys([roots.toplevel, client.cwd] if roots else [client.cwd]))
    private = private_folders(client, paths)
    project = [paths.join(folder, ".claude") for folder in folders if folder not in private]
    project = [folder for folder in project if folder not in private]
    if client.config_dir:
        yield paths.join(client.config_dir, "settings.json"), "user"
    for folder in project:
        yield paths.join(folder, "settings.json"), "project"
    for folder in project:
        yield paths.join(folder, "settings.local.json"), "local"
    if client.managed_dir:
        yield paths.join(client.managed_dir, "managed-settings.json"), None


def private_folders(client: Client, paths: Paths) -> frozenset[str]:
    """The home's ``.claude`` and the configuration folder: the user's own, never a project's."""
    dot_claude = paths.join(client.home, ".claude") if client.home else None
    return frozenset(folder for folder in (dot_claude, client.config_dir) if folder)


def _values(path: str, paths: Paths) -> Flow[Mapping[str, Any] | str | None]:
    """The file's object, None when there is no file, or a sentence that says what is wrong with it."""
    node = yield from look(path)
    if node.kind is not Kind.FILE:
        return None
    if is_git_metadata(node.real, paths):
        return "It leads into .git, which is not read."
    content = yield from read(node.real)
    if content.data is None:
        return f"It cannot be read ({content.problem})."
    try:
        values = json.loads(content.data.decode("utf-8-sig"))
        json.dumps(values, ensure_ascii=False).encode()  # half a surrogate pair is no text that could be sent on
    except (ValueError, RecursionError) as error:
        return f"It is not valid JSON: {error}."
    return values if isinstance(values, dict) else "It must hold a JSON object."


def _merged(files: Sequence[_File], rows: tuple[Row, ...], client: Client, paths: Paths) -> Configuration:
    notices = [Notice("settings_unreadable", row.hint or "", row.path) for row in rows]
    wrong = [
        Notice("settings_ignored", f"{key} must be {kind}; it was ignored.", file.path)
        for file in files
        for key, kind, fits in _KINDS
        if key in file.values and not fits(file.values[key])
    ]
    memory_dir, refused = _memory_dir(files, client, paths)
    additional, ignored = _additional(files, client, paths)
    return Configuration(
        excludes=tuple(
            ExcludeGlob(glob, file.path, shared=file.source in {"user", None})
            for file in files
            for glob in _strings(file.values.get("claudeMdExcludes"))
        ),
        auto_memory=_last(files, "autoMemoryEnabled", bool),
        auto_memory_dir=memory_dir,
        additional_directories=additional,
        include_git_instructions=_last(files, "includeGitInstructions", bool),
        language=_last(files, "language", str),
        output_style=_last(files, "outputStyle", str),
        rows=rows,
        notices=(*notices, *wrong, *refused, *ignored),
    )


def _is_strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


_KINDS = (
    ("claudeMdExcludes", "a list of strings", _is_strings),
    ("autoMemoryEnabled", "true or false", lambda value: isinstance(value, bool)),
    ("autoMemoryDirectory", "a string", lambda value: isinstance(value, str)),
    ("includeGitInstructions", "true or false", lambda value: isinstance(value, bool)),
    ("language", "a string", lambda value: isinstance(value, str)),
    ("outputStyle", "a string", lambda value: isinstance(value, str)),
)


def _strings(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _last(files: Sequence[_File], key: str, kind: type[Any]) -> Any:
    found = [file.values[key] for file in files if isinstance(file.values.get(key), kind)]
    return found[-1] if found else None


def _not_taken(key: str, file: _File) -> Notice:
    if file.source == "project":
        message = f"{key} is not taken from project settings: name it in local or user settings."
    else:
        message = f"{key} is not taken from local settings that git tracks: name it in user settings, or untrack them."
    return Notice("settings_ignored", message, file.path)


def _additional(files: Sequence[_File], client: Client, paths: Paths) -> tuple[tuple[str, ...], list[Notice]]:
    """More working directories. A project's own files may not name any: they come with a clone."""
    found: list[str] = []
    refused = []
    for file in files:
        permissions = file.values.get("permissions")
        nested = permissions.get("additionalDirectories") if isinstance(permissions, dict) else None
        named = [*_strings(file.values.get("additionalDirectories")), *_strings(nested)]
        if named and file.comes_along:
            refused.append(_not_taken("additionalDirectories", file))
            continue
        for folder in named:
            home = client.home if folder.startswith("~/") else None
            found.append(paths.join(home, folder[2:]) if home else paths.join(client.cwd, folder))
    return tuple(dict.fromkeys(found)), refused


def _memory_dir(files: Sequence[_File], client: Client, paths: Paths) -> tuple[str | None, list[Notice]]:
    """Where auto memory was moved to. A project's own files may not say so: they come with a clone."""
    found, refused = None, []
    for file in files:
        value = file.values.get("autoMemoryDirectory")
        if not isinstance(value, str):
            continue
        if file.comes_along:
            refused.append(_not_taken("autoMemoryDirectory", file))
        elif value.startswith("~/") and client.home:
            found = paths.join(client.home, value[2:])
        elif paths.is_absolute(value):
            found = paths.normal(value)
        else:
            message = "autoMemoryDirectory must be absolute or begin with ~/; it was ignored."
            refused.append(Notice("settings_ignored", message, file.path))
    return found, refused
