"""What a folder inside a project says of itself (AGENTS.md, CLAUDE.md, .cursorrules): told with the result of
the first file tool that touches the folder in a session. The workspace's own files are in the prompt."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping

from hermes.agent.context.project_files import read_folder_notes
from hermes.domain.errors import HermesError
from hermes.domain.ports.world import Backend
from hermes.domain.tools.tool import Tool, ToolContext, ToolResult
from hermes.domain.word import replace

FILE_TOOLS = frozenset(("read_file", "write_file", "patch", "search_files"))
_MOST_CHARS = 8_000
_LEVELS = 5
_MOST_SESSIONS, _MOST_FOLDERS = 500, 2_000


class FolderNotes:
    """What was told is remembered as long as the gateway runs; afterwards it may be told once more."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._folders: dict[str, set[str]] = {}

    def dress(self, tools: Iterable[Tool]) -> list[Tool]:
        return [self._with_notes(tool) if tool.name in FILE_TOOLS else tool for tool in tools]

    def _with_notes(self, tool: Tool) -> Tool:
        async def run(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
            result = await tool.run(context, arguments)
            path = arguments.get("path")
            plain = context.source is not None and context.source.ignore_rules
            if result.failed or plain or not isinstance(path, str):
                return result
            notes = await self._notes(context.session, path)
            return replace(result, text=f"{result.text}\n\n{notes}") if notes else result

        return replace(tool, run=run)

    async def _notes(self, session: str, path: str) -> str:
        try:
            folders = await self._new_folders(session, path)
            files = self._backend.files
            found = [(each, await read_folder_notes(files, session, each, _MOST_CHARS)) for each in folders]
        except HermesError:
            return ""  # the call itself went well
        texts = (
            f"[{file.name} in {folder} says:]\n{file.text}" for folder, file in found if file is not None
        )
        return "\n\n".join(texts)

    async def _new_folders(self, session: str, path: str) -> list[str]:
        """The folders from the workspace down to a path that were not touched before, outermost first."""
        workspace = (await self._backend.place(session)).workspace.rstrip("/")
        place = posixpath.normpath(posixpath.join(await self._backend.cwd(session), path))
        seen = self._folders.setdefault(session, set())
        if len(self._folders) > _MOST_SESSIONS:
            self._folders.pop(next(iter(self._folders)))
        above = [place, *(str(parent) for parent in _parents(place))][: _LEVELS + 1]
        new = [folder for folder in above if folder.startswith(f"{workspace}/") and folder not in seen]
        if len(seen) > _MOST_FOLDERS:
            return []
        seen.update(new)
        return new[::-1]


def _parents(path: str) -> Iterable[str]:
    while path != (above := posixpath.dirname(path)):
        yield above
        path = above
