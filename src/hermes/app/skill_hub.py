"""Where skills come from: what is shipped, folders, zips, git addresses and hubs (Agent Skills Discovery
v0.2.0), and how one is looked at, installed, updated and removed. `hermes skills` and `/skills` use it.

What was fetched is only read. Every address goes through the egress client; git connects by itself, to the
addresses that the egress rules have found for its host."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

from msgspec import Struct

from hermes.domain.clock import Clock
from hermes.domain.errors import HermesError, UserError
from hermes.domain.knowledge.skill import SKILL_FILE, Skill, SkillTrust, find_skills, pick_skill, slug
from hermes.domain.ports.world import Egress
from hermes.domain.settings.skills import SkillSettings
from hermes.domain.text import one_line
from hermes.execution.scripts import run_program
from hermes.state.skills.installing import InstalledSkills, PinnedSkill
from hermes.state.skills.package import (
    MOST_FILES,
    SkillPackage,
    check_file_path,
    choose_root,
    is_kept,
    pack,
    pack_folder,
    pack_zip,
)
from hermes.state.skills.places import BUNDLED, OPTIONAL
from hermes.state.skills.shelf import SkillShelf

INDEXES = ("/.well-known/agent-skills/index.json", "/.well-known/skills/index.json")
_LARGEST_INDEX, _LARGEST_FILE, _LARGEST_ZIP = 2_000_000, 1 << 20, 20 << 20
_GIT_HOSTS = ("github.com", "gitlab.com", "codeberg.org", "bitbucket.org")
_GIT_SECONDS = 60.0
_GIT_BLOCKS = 400_000
"""Of half a KB (or one, by the shell): the largest file that git may write."""
log = logging.getLogger("hermes.skills")
_MOST_LISTED = 500
FetchedSkill = tuple[SkillPackage, str, SkillTrust, str]
"""A skill, how its source is written down, how far it is trusted, and its category."""
PinHost = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host that may be connected to."""


class SkillProposal(Struct, frozen=True, kw_only=True):
    """A skill that could be installed: what it is, where from, and what is there under its name now;
    `instead` says of which other skill it would take the place."""

    package: SkillPackage
    source: str
    trust: SkillTrust
    category: str = ""
    before: PinnedSkill | None = None
    old_files: Mapping[str, bytes] | None = None
    changed: bool = False
    instead: str = ""

    @property
    def is_current(self) -> bool:
        return self.before is not None and self.before.digest == self.package.digest and not self.changed

    def lines(self) -> list[str]:
        """What a person sees before they decide. It reads every file: call it off the loop."""
        from hermes.state.skills.evidence import differences, gather

        package = self.package
        lines = [
            f"{package.name}: {one_line(package.manifest.description, 300)}",
            f"from: {self.source} ({self.trust})",
            f"files: {len(package.files)}, {sum(map(len, package.files.values())):,} bytes",
            f"digest: {package.digest}",
            *gather(package).lines,
        ]
        if self.instead:
            lines.append(f"It takes the place of {self.instead}.")
        if self.changed:
            lines.append("It was changed here since it was installed; those changes would be lost.")
        if self.old_files is not None:
            lines += ["changes:", *differences(self.old_files, package.files)]
        return lines


class SkillHub:
    """The skills of one agent's home, and the ways to others."""

    def __init__(
        self, home: Path, settings: Callable[[], SkillSettings], egress: Egress, pin: PinHost, clock: Clock
    ) -> None:
        self._settings = settings
        self._egress = egress
        self._pin = pin
        self._clock = clock
        self.installed = InstalledSkills(home)

    # --- looking ---

    async def search(self, words: str, limit: int = 50) -> list[Skill]:
        """What could be installed: what is shipped and not active, and what the hubs offer."""
        offered = list(await asyncio.to_thread(_optional))
        for hub in self._settings().hubs:
            try:
                index = await self._index(hub)
            except UserError as error:
                log.warning("skills.hub_silent hub=%s why=%s", one_line(hub), error)
                continue
            offered += [
                Skill(
                    name=name,
                    description=one_line(str(entry.get("description", "")), 300),
                    folder=f"{hub.rstrip('/')}#{name}",
                    trust=self._trust(hub),
                )
                for name, entry in index[1].items()
            ]
        return find_skills(words, {skill.name: skill for skill in reversed(offered)}.values(), limit)

    async def propose(self, source: str) -> SkillProposal:
        """Fetch a skill and say what it is; nothing is changed."""
        package, spelled, trust, category = await self._fetch(source.strip())
        pins = await asyncio.to_thread(self.installed.pins)
        before = pins.get(package.name)
        shipped = {skill.name for skill in await asyncio.to_thread(_shipped)}
        return SkillProposal(
            package=package,
            source=spelled,
            trust=trust,
            category=category,
            before=before,
            old_files=None
            if before is None
            else await asyncio.to_thread(self.installed.files_or_none, before),
            changed=before is not None and await asyncio.to_thread(self.installed.is_changed, before),
            instead="" if before is not None or package.name not in shipped else "the one that is shipped",
        )

    async def propose_update(self, name: str) -> SkillProposal:
        pins = await asyncio.to_thread(self.installed.pins)
        pin = pins.get(slug(name))
        if pin is None:
            message = f"The skill {one_line(name, 70)} was not installed from anywhere."
            raise UserError(message, hint="hermes skills list shows where each comes from.")
        proposal = await self.propose(pin.source)
        if proposal.package.name != pin.name:
            raise UserError(f"{pin.source} is now another skill: {proposal.package.name}.")
        return proposal

    # --- changing ---

    async def install(self, proposal: SkillProposal) -> PinnedSkill:
        given = (proposal.package, proposal.source, proposal.trust, proposal.category, self._clock.now())
        return await asyncio.to_thread(self.installed.install, *given, seen=proposal.old_files)

    async def remove(self, name: str) -> None:
        await asyncio.to_thread(self.installed.remove, slug(name))

    async def act(self, words: str) -> str:
        """Do what `/skills` asks for. What is installed from a chat is confirmed by its digest, so that it is
        the one that was looked at."""
        verb, _, rest = words.strip().partition(" ")
        source, _, digest = rest.strip().partition(" ")
        if verb == "browse":
            lines = [
                f"{skill.name}: {skill.description} ({skill.trust})" for skill in await self.search(rest)
            ]
            return "\n".join(lines) or "Nothing is offered. Settings: skills.hubs"
        if verb not in ("inspect", "install", "update", "remove") or not source:
            raise UserError(
                f"/skills cannot do “{one_line(words, 40)}”.",
                hint="Use list, search, browse, inspect, install, update or remove; hermes skills does more.",
            )
        if verb == "remove":
            pin = (await asyncio.to_thread(self.installed.pins)).get(slug(source))
            if pin is not None and await asyncio.to_thread(self.installed.is_changed, pin):
                hint = f"At the computer: hermes skills remove {pin.name}"
                raise UserError(f"{pin.name} was changed here, so it stays.", hint=hint)
            await self.remove(source)
            return f"Removed {slug(source)}."
        proposal = await (self.propose_update(source) if verb == "update" else self.propose(source))
        if proposal.is_current:
            return f"{proposal.package.name} is up to date ({proposal.package.digest})."
        if verb == "inspect" or not digest:
            confirm = f"/skills {'install' if verb == 'inspect' else verb} {source} {proposal.package.digest}"
            return "\n".join(
                [*await asyncio.to_thread(proposal.lines), f"To install exactly this: {confirm}"]
            )
        if digest.strip() != proposal.package.digest:
            raise UserError(f"It is another one by now: {proposal.package.digest}.", hint="Look at it again.")
        pin = await self.install(proposal)
        return f"Installed {pin.name}, pinned to {pin.digest}."

    # --- fetching ---

    def _trust(self, address: str) -> SkillTrust:
        trusted = any(_is_below(address, begin) for begin in self._settings().trusted)
        return SkillTrust.TRUSTED if trusted else SkillTrust.COMMUNITY

    async def _fetch(self, source: str) -> FetchedSkill:
        address, _, wanted = source.partition("#")
        if "://" in address:
            return await self._fetch_address(address, wanted), source, self._trust(address), ""
        return await asyncio.to_thread(_fetch_here, address, wanted)

    async def _fetch_address(self, address: str, wanted: str) -> SkillPackage:
        url = urlsplit(address.removeprefix("git+"))
        if url.scheme not in ("https", "http") or not url.hostname:
            raise UserError(
                f"“{one_line(address, 80)}” is not an address that skills are fetched from.",
                hint="Use https://…, a folder, a zip, or the name of an optional skill.",
            )
        if url.path.endswith(".zip"):
            page = await self._get(address, _LARGEST_ZIP)
            return await asyncio.to_thread(pack_zip, page, wanted)
        if address.startswith("git+") or url.path.endswith(".git") or url.hostname in _GIT_HOSTS:
            return await self._clone(address.removeprefix("git+"), wanted)
        return await self._from_hub(address, wanted)

    async def _get(self, url: str, limit: int) -> bytes:
        page = await self._egress.fetch(url, limit=limit)
        if page.status != 200:
            raise UserError(f"{one_line(url, 120)} was not fetched: HTTP {page.status}.")
        return page.data

    async def _index(self, site: str) -> tuple[str, dict[str, Mapping[str, Any]]]:
        """The address of a site's index, and its entries by name."""
        trouble: UserError | None = None
        for path in ("",) if site.endswith(".json") else INDEXES:
            try:
                url = urljoin(site, path) if path else site
                return url, _read_index(url, await self._get(url, _LARGEST_INDEX))
            except UserError as error:
                trouble = trouble or error
        assert trouble is not None
        raise trouble

    async def _from_hub(self, site: str, wanted: str) -> SkillPackage:
        """Every file is held against its digest, and the whole against the skill's."""
        url, entries = await self._index(site)
        if not wanted:
            names = ", ".join(list(entries)[:20]) or "none"
            raise UserError(f"{one_line(site, 100)} offers: {names}.", hint="Name one: …#name")
        entry = entries.get(wanted)
        if entry is None:
            raise UserError(f"{one_line(site, 100)} offers no skill “{one_line(wanted, 70)}”.")
        listed = _listed_files(entry)
        files: dict[str, bytes] = {}
        for path, digest in listed.items():
            data = await self._get(urljoin(url, f"{quote(wanted)}/{quote(path)}"), _LARGEST_FILE)
            if f"sha256:{sha256(data).hexdigest()}" != digest:
                raise UserError(f"{path} of {wanted} is not what the index says: its digest is wrong.")
            files[path] = data
        package = pack(files, wanted)
        if package.digest != entry.get("digest"):
            raise UserError(f"{wanted} is not what the index says: its digest is wrong.")
        if package.name != wanted:
            raise UserError(f"The index calls it {wanted}, its SKILL.md {package.name}.")
        return pack({path: data for path, data in files.items() if is_kept(path)}, wanted)

    async def _clone(self, address: str, wanted: str) -> SkillPackage:
        url = urlsplit(address)
        port = url.port or (443 if url.scheme == "https" else 80)
        if url.username or url.password:
            raise UserError("The address has a name or a password in it.", hint="Leave them out.")
        try:
            places = await self._pin(url.hostname or "", port)
        except HermesError as error:
            raise UserError(f"{one_line(address, 120)} was not fetched. {error}") from error
        program = await asyncio.to_thread(shutil.which, "git")
        if program is None:
            raise UserError("git is not installed.", hint="Install it, or give a zip.")
        with tempfile.TemporaryDirectory(prefix="hermes-skill-") as folder:
            resolve = f"http.curloptResolve={url.hostname}:{port}:{','.join(places)}"
            options = ("http.followRedirects=false", resolve, "core.bigFileThreshold=1m")
            git = _Git(folder, [program, *(word for option in options for word in ("-c", option))])
            await git.run("clone", "--quiet", "--bare", "--depth=1", "--", address, f"{folder}/bare")
            # It is never checked out: a small repository can stand for a disk full of files.
            listed = await git.run("-C", "bare", "ls-tree", "-r", "-z", "--name-only", "HEAD")
            root = choose_root(listed.decode("utf-8", "replace").split("\0"), wanted)
            name = root or url.path.rstrip("/").removesuffix(".git").rpartition("/")[2] or "skill"
            tree = f"HEAD:{root}"
            packed = await git.run("-C", "bare", "archive", "--format=zip", f"--prefix={name}/", tree)
            return await asyncio.to_thread(pack_zip, packed, PurePosixPath(name).name)


def _is_below(address: str, place: str) -> bool:
    """Whether an address is a place or lies below it: on the same host, and by no detour."""
    here, there = urlsplit(address.partition("#")[0].removeprefix("git+")), urlsplit(place)
    plain = not {".", ".."} & {*here.path.split("/")} and not {*"%\\"} & {*here.path}
    same = (here.scheme, here.netloc.lower()) == (there.scheme, there.netloc.lower())
    below = f"{here.path}/".startswith(f"{there.path.rstrip('/')}/")
    return plain and same and bool(there.netloc) and below


def _fetch_here(address: str, wanted: str) -> FetchedSkill:
    """From this machine: a folder, a zip, or what is shipped and not active."""
    path = Path(os.path.expanduser(address))
    if path.is_dir() and os.sep in address:
        return pack_folder(path.resolve(), wanted), _spell(path, wanted), SkillTrust.COMMUNITY, ""
    if path.is_file():
        if path.stat().st_size > _LARGEST_ZIP:
            raise UserError(f"{path.name} is larger than {_LARGEST_ZIP >> 20} MB.")
        return pack_zip(path.read_bytes(), wanted), _spell(path, wanted), SkillTrust.COMMUNITY, ""
    if os.sep in address and not path.exists():
        raise UserError(f"There is no folder or zip {one_line(str(path), 200)}.")
    if slug(address) in {skill.name for skill in _shipped()}:
        raise UserError(f"{address} comes with Hermes already.", hint=f"hermes skills enable {address}")
    skill = pick_skill(address, _optional())
    return pack_folder(Path(skill.folder)), skill.name, SkillTrust.OFFICIAL, skill.category


class _Git(Struct, frozen=True):
    """git in a folder of its own, which it may fill up to a limit."""

    folder: str
    begin: Sequence[str]

    async def run(self, *words: str) -> bytes:
        environ = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": self.folder,
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_ALLOW_PROTOCOL": "https:http",
        }
        command = ("/bin/sh", "-c", f'ulimit -f {_GIT_BLOCKS} && exec "$@"', "sh", *self.begin, *words)
        done = await run_program(
            command, b"", _GIT_SECONDS, environ=environ, cwd=self.folder, most=_LARGEST_ZIP
        )
        if done.code is None:
            raise UserError(
                f"git took longer than {_GIT_SECONDS:g} s, or gave more than {_LARGEST_ZIP >> 20} MB."
            )
        if done.code:
            trouble = done.complaint.decode("utf-8", "replace")
            raise UserError(f"git could not fetch it: {one_line(trouble, 200) or 'it was too large'}")
        return done.output


def _read_index(url: str, data: bytes) -> dict[str, Mapping[str, Any]]:
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        tree = None
    skills = tree.get("skills") if isinstance(tree, dict) else None
    if not isinstance(skills, list):
        raise UserError(f"{one_line(url, 120)} is no index of skills.")
    version = str(tree.get("version", "0.1.0"))
    if version.partition(".")[0] != "0":
        raise UserError(f"The index has version {one_line(version, 20)}, which is not known here.")
    named = [entry for entry in skills[:_MOST_LISTED] if isinstance(entry, dict)]
    return {str(entry["name"]): entry for entry in named if slug(str(entry.get("name"))) == entry.get("name")}


def _listed_files(entry: Mapping[str, Any]) -> dict[str, str]:
    files = entry.get("files")
    listed: dict[str, str] = {}
    for each in files if isinstance(files, list) else []:
        if not isinstance(each, dict) or not isinstance(each.get("digest"), str):
            raise UserError("The index gives no digests, so nothing of it can be verified.")
        path = str(each.get("path"))
        check_file_path(path)
        listed[path] = each["digest"]
    if SKILL_FILE not in listed or len(listed) > MOST_FILES:
        raise UserError(f"The index lists no {SKILL_FILE} for it, or more than {MOST_FILES} files.")
    return listed


def _spell(path: Path, wanted: str) -> str:
    return f"{path.resolve()}{f'#{wanted}' if wanted else ''}"


def _optional() -> Sequence[Skill]:
    return _shelved(OPTIONAL, SkillTrust.OFFICIAL)


def _shipped() -> Sequence[Skill]:
    return _shelved(BUNDLED, SkillTrust.BUNDLED)


def _shelved(folder: Path, trust: SkillTrust) -> Sequence[Skill]:
    shelf = SkillShelf(folder, trust)
    shelf.scan()
    return shelf.skills
