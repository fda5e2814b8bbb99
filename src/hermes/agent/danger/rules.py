"""The rules by which a command is asked for: an id and the reason a person is given."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """`never` = refused, whoever asks; else a person decides."""

    reason: str
    never: bool = False


RULES: dict[str, Rule] = {
    "denied": Rule("fits a pattern of approvals.deny", never=True),
    "delete.root": Rule("deletes a system folder, a home or the whole disk", never=True),
    "delete.outside": Rule("deletes outside the workspace"),
    "delete.everything": Rule("deletes everything in the workspace, or its version history"),
    "delete.unknown": Rule("deletes something that cannot be told beforehand"),
    "disk.device": Rule("writes to a disk device", never=True),
    "disk.format": Rule("formats or repartitions a disk", never=True),
    "disk.change": Rule("changes disks, mounts or swap"),
    "power": Rule("stops or restarts the machine", never=True),
    "kill.all": Rule("kills every process", never=True),
    "kill.many": Rule("kills processes by name or by a list"),
    "fork.bomb": Rule("starts itself without end", never=True),
    "loop.processes": Rule("starts processes in an endless loop"),
    "rights.recursive": Rule("changes rights or owners of whole folders"),
    "rights.open": Rule("gives everybody rights, or gives a program its owner's"),
    "rights.owner": Rule("changes the owner of files"),
    "package.change": Rule("installs or removes software of the whole machine"),
    "package.foreign": Rule("installs software from an address of its own"),
    "service.change": Rule("starts, stops or changes services"),
    "system.change": Rule("changes users, network, kernel or settings of the machine"),
    "root": Rule("runs with another user's rights"),
    "container": Rule("starts, changes or removes containers"),
    "cluster": Rule("changes machines or services elsewhere"),
    "git.force": Rule("overwrites or removes history on a remote"),
    "git.discard": Rule("throws away uncommitted work, branches or stashes"),
    "git.rewrite": Rule("rewrites or purges the history of a repository"),
    "git.code": Rule("makes git run programs of its own choice"),
    "git.push": Rule("sends a repository to an address of its own"),
    "sql.drop": Rule("drops or empties data in a database"),
    "sql.unknown": Rule("runs database statements that cannot be told beforehand"),
    "write.agent": Rule("changes settings or data of Hermes and its agents"),
    "write.ssh": Rule("changes who can log in, or with which keys"),
    "write.startup": Rule("changes what runs by itself at login or later"),
    "write.schedule": Rule("changes scheduled jobs"),
    "write.secret": Rule("changes files with credentials"),
    "write.system": Rule("changes files of the system"),
    "write.unknown": Rule("writes to a place that cannot be told beforehand"),
    "read.secret": Rule("reads credentials or private keys"),
    "read.home": Rule("reads settings, conversations or other data of Hermes and its agents"),
    "read.unknown": Rule("reads something that cannot be told beforehand"),
    "run.download": Rule("runs what it downloads"),
    "run.decoded": Rule("runs something that is hidden in an encoding"),
    "run.unknown": Rule("runs something that cannot be told beforehand"),
    "run.input": Rule("is told to a program that may do anything with it"),
    "run.later": Rule("changes what the next lines of a running shell mean"),
    "run.fresh": Rule("runs a file that it has just written"),
    "run.remote": Rule("runs commands on another machine"),
    "run.code": Rule("runs code that changes files, starts programs or uses the network"),
    "run.environment": Rule("sets a variable that makes programs load or run something else"),
    "net.upload": Rule("sends files or data to another machine"),
    "net.socket": Rule("opens a raw network connection"),
    "net.metadata": Rule("asks a cloud's metadata service for credentials"),
    "history.erase": Rule("erases command history or logs"),
    "process.control": Rule("reaches into a running process, or changes what marks an agent's processes"),
    "agent.self": Rule("stops or changes the agent's own gateway"),
    "text.hidden": Rule("contains characters that look like others or cannot be seen"),
    "text.keys": Rule("contains control characters, which a terminal takes for keys", never=True),
    "text.unreadable": Rule("cannot be read as a command line"),
}
