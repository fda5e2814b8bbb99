"""Commands that start themselves, or others, without end."""

from __future__ import annotations

from hermes.agent.danger.shell.syntax import (
    Background,
    CompoundCommand,
    ConditionalCommand,
    Pipeline,
    ShellFunction,
    ShellNode,
    SimpleCommand,
    plain,
)


def starts_aside(node: ShellNode) -> bool:
    if isinstance(node, Background):
        return True
    if isinstance(node, ConditionalCommand):
        return starts_aside(node.node)
    return isinstance(node, CompoundCommand) and any(
        starts_aside(inner) for body in node.bodies for inner in body
    )


def is_endless(condition: tuple[ShellNode, ...]) -> bool:
    if len(condition) != 1 or not isinstance(condition[0], SimpleCommand) or not condition[0].words:
        return False
    return plain(condition[0].words[0]) in ("true", ":", "1", "sleep")


def calls_itself(name: str, node: ShellNode, *, aside: bool = False) -> bool:
    """Whether a function runs itself more than once at a time."""
    match node:
        case SimpleCommand(words=words):
            return aside and bool(words) and plain(words[0]) == name
        case Pipeline(nodes=nodes):
            return any(calls_itself(name, one, aside=True) for one in nodes)
        case ConditionalCommand(node=inner):
            return calls_itself(name, inner, aside=aside)
        case Background(node=inner):
            return calls_itself(name, inner, aside=True)
        case CompoundCommand(bodies=bodies):
            return any(calls_itself(name, one, aside=aside) for body in bodies for one in body)
        case ShellFunction():
            return False
