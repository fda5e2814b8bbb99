"""The rules by which a command needs approval or is refused, each with the reason that a person is given, and
the verdict on one command."""

from __future__ import annotations

from msgspec import Struct


class DangerRule(Struct, frozen=True):
    """`never` = refused, whoever approves; else it needs a person's approval."""

    reason: str
    never: bool = False


RULES: dict[str, DangerRule] = {
    "denied": DangerRule("fits a pattern of approvals.deny", never=True),
    "locked": DangerRule("fits a pattern of approvals.ask"),
    "ignored": DangerRule("names a file that .agentignore keeps from agents"),
    "ignored.inside": DangerRule("reads a whole folder with a file that .agentignore keeps from agents"),
    "delete.root": DangerRule("deletes a system folder, a home or the whole disk", never=True),
    "delete.outside": DangerRule("deletes outside the workspace"),
    "delete.everything": DangerRule("deletes everything in the workspace, or its version history"),
    "delete.unknown": DangerRule("deletes something that cannot be told beforehand"),
    "disk.device": DangerRule("writes to a disk device", never=True),
    "disk.format": DangerRule("formats or repartitions a disk", never=True),
    "disk.change": DangerRule("changes disks, mounts or swap"),
    "power": DangerRule("stops or restarts the machine", never=True),
    "kill.all": DangerRule("kills every process", never=True),
    "kill.many": DangerRule("kills processes by name or by a list"),
    "fork.bomb": DangerRule("starts itself without end", never=True),
    "loop.processes": DangerRule("starts processes in an endless loop"),
    "rights.recursive": DangerRule("changes rights or owners of whole folders"),
    "rights.open": DangerRule("gives everybody rights, or gives a program its owner's"),
    "rights.owner": DangerRule("changes the owner of files"),
    "package.change": DangerRule("installs or removes software of the whole machine"),
    "package.foreign": DangerRule("installs software from an address of its own"),
    "service.change": DangerRule("starts, stops or changes services"),
    "system.change": DangerRule("changes users, network, kernel or settings of the machine"),
    "root": DangerRule("runs with another user's rights"),
    "container": DangerRule("starts, changes or removes containers"),
    "cluster": DangerRule("changes machines or services elsewhere"),
    "git.force": DangerRule("overwrites or removes history on a remote"),
    "git.discard": DangerRule("throws away uncommitted work, branches or stashes"),
    "git.rewrite": DangerRule("rewrites or purges the history of a repository"),
    "git.code": DangerRule("makes git run programs of its own choice"),
    "git.push": DangerRule("sends a repository to an address of its own"),
    "sql.drop": DangerRule("drops or empties data in a database"),
    "sql.unknown": DangerRule("runs database statements that cannot be told beforehand"),
    "write.agent": DangerRule("changes settings or data of Hermes and its agents"),
    "write.ssh": DangerRule("changes who can log in, or with which keys"),
    "write.startup": DangerRule("changes what runs by itself at login or later"),
    "write.later": DangerRule("changes what tools run later by themselves, outside of any sandbox"),
    "write.prompt": DangerRule("changes what agents are told in later conversations"),
    "write.schedule": DangerRule("changes scheduled jobs"),
    "write.secret": DangerRule("changes files with credentials"),
    "write.system": DangerRule("changes files of the system"),
    "write.unknown": DangerRule("writes to a place that cannot be told beforehand"),
    "read.secret": DangerRule("reads credentials or private keys"),
    "read.home": DangerRule("reads settings, conversations or other data of Hermes and its agents"),
    "read.unknown": DangerRule("reads something that cannot be told beforehand"),
    "run.download": DangerRule("runs what it downloads"),
    "run.decoded": DangerRule("runs something that is hidden in an encoding"),
    "run.unknown": DangerRule("runs something that cannot be told beforehand"),
    "run.input": DangerRule("is told to a program that may do anything with it"),
    "run.later": DangerRule("changes what the next lines of a running shell mean"),
    "run.fresh": DangerRule("runs a file that it has just written"),
    "run.remote": DangerRule("runs commands on another machine"),
    "run.code": DangerRule("runs code that changes files, starts programs or uses the network"),
    "run.environment": DangerRule("sets a variable that makes programs load or run something else"),
    "net.upload": DangerRule("sends files or data to another machine"),
    "net.socket": DangerRule("opens a raw network connection"),
    "net.listen": DangerRule("serves to everybody who can reach this machine"),
    "net.metadata": DangerRule("asks a cloud's metadata service for credentials"),
    "history.erase": DangerRule("erases command history or logs"),
    "process.control": DangerRule(
        "reaches into a running process, or changes what marks an agent's processes"
    ),
    "agent.self": DangerRule("stops or changes the agent's own gateway"),
    "text.hidden": DangerRule("contains characters that look like others or cannot be seen"),
    "text.keys": DangerRule("contains control characters, which a terminal takes for keys", never=True),
    "text.unreadable": DangerRule("cannot be read as a command line"),
}


class DangerFinding(Struct, frozen=True, kw_only=True):
    """A rule that a command breaks, and the words that break it."""

    rule: str
    what: str


class DangerVerdict(Struct, frozen=True, kw_only=True):
    """The decision whether a command needs a person's approval, with what was found."""

    findings: tuple[DangerFinding, ...] = ()
    scripts: tuple[str, ...] = ()
    """Files that it would run: their texts matter if the agent wrote them."""
    written: tuple[str, ...] = ()
    sudo: tuple[str, ...] = ()
    """What each sudo in it is told before its command."""
    taken: tuple[str, ...] = ()
    """Folders that it would read whole, if `.agentignore` keeps files."""

    @property
    def needs_approval(self) -> bool:
        return bool(self.findings)

    @property
    def never(self) -> bool:
        """Refused, whoever approves."""
        return any(RULES[finding.rule].never for finding in self.findings)

    @property
    def locked(self) -> bool:
        """Asked for each time, whatever was allowed before."""
        return any(finding.rule == "locked" for finding in self.findings)

    @property
    def reasons(self) -> str:
        """One line per rule, the gravest first."""
        ranked = sorted(self.findings, key=lambda finding: not RULES[finding.rule].never)
        lines = dict.fromkeys(
            RULES[finding.rule].reason + (f": {finding.what}" if finding.what else "") for finding in ranked
        )
        return "; ".join(list(lines)[:4])
