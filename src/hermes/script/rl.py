"""Agents as an environment of Atropos, a framework for reinforcement learning: each rollout is a conversation
of an `AIAgent` in a folder of its own, judged by a reward. Needs the extra `rl`."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from atroposlib.envs.base import APIServerConfig, BaseEnv, BaseEnvConfig
from msgspec import Struct
from pydantic import Field

from hermes.script.agent import AIAgent

_HIDDEN = -100
"""What trainers take for a token that does not count."""
_ROLES = {"system": "system", "human": "user", "gpt": "assistant", "tool": "tool"}


class AgentEnvConfig(BaseEnvConfig):  # type: ignore[misc]
    """What an environment of agents may be told beside what every environment is."""

    max_agent_turns: int = Field(default=30, description="Model calls in one rollout")
    enabled_toolsets: list[str] | None = Field(default=None, description="The only toolsets; None = all")
    system_prompt: str | None = Field(default=None, description="Added to what the model is told first")


class AgentResult(Struct, frozen=True, kw_only=True):
    """How a rollout went: its messages in OpenAI's format, what the model thought in each reply, and why it
    came to no answer."""

    messages: list[dict[str, Any]]
    turns_used: int
    finished_naturally: bool
    final_response: str
    error: str
    reasoning_per_turn: list[str]
    tool_errors: list[str]


class RolloutContext(Struct, frozen=True, kw_only=True):
    """The world of a rollout, for its reward: its folder, and commands in the agent's backend."""

    workspace: Path
    agent: AIAgent

    async def terminal(self, command: str) -> str:
        """What a command prints where the agent's own commands ran."""
        return await self.agent.arun_command(command)

    def read_file(self, path: str) -> str:
        return (self.workspace / path).read_text(encoding="utf-8", errors="replace")


class HermesAgentEnv(BaseEnv):  # type: ignore[misc]
    """Subclass it with `setup`, `get_next_item`, `format_prompt`, `compute_reward` and `evaluate`; then
    `YourEnv.cli()` has the subcommands `serve`, `process` and `evaluate`."""

    name = "hermes-agent"
    env_config_cls = AgentEnvConfig

    @classmethod
    def config_init(cls) -> tuple[AgentEnvConfig, list[Any]]:
        """One server, so that `--openai.base_url` and its like on the command line count."""
        return cls.env_config_cls(), [APIServerConfig()]

    @abstractmethod
    def format_prompt(self, item: Any) -> str:
        """What the agent is asked."""

    @abstractmethod
    async def compute_reward(self, item: Any, result: AgentResult, ctx: RolloutContext) -> float:
        """How well it did."""

    async def collect_trajectory(self, item: Any) -> tuple[Mapping[str, Any], list[Any]]:
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="hermes-rollout-"))
        try:
            async with self._agent(folder) as agent:
                raw = await agent.arun_conversation(self.format_prompt(item))
                sample = await agent.atrajectory()
                ctx = RolloutContext(workspace=folder, agent=agent)
                score = await self.compute_reward(item, _result(raw, sample), ctx)
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        chat = [{"role": _ROLES[turn["from"]], "content": turn["value"]} for turn in sample]
        tokens, masks = tokenize(self.tokenizer, chat)
        messages = {"messages": chat} if self.config.include_messages else {}
        return {"tokens": tokens, "masks": masks, "scores": score, **messages}, []

    def _agent(self, folder: Path) -> AIAgent:
        served, config = self.server.servers[0].config, self.config
        return AIAgent(
            served.model_name,
            base_url=served.base_url,
            api_key=served.api_key or "none",
            max_iterations=config.max_agent_turns,
            enabled_toolsets=config.enabled_toolsets,
            ephemeral_system_prompt=config.system_prompt,
            workspace=folder,
            quiet_mode=True,
        )


HermesAgentBaseEnv = HermesAgentEnv
"""What existing environments know it as."""


def tokenize(tokenizer: Any, chat: list[dict[str, str]]) -> tuple[list[int], list[int]]:
    """A conversation as tokens, and the same with all hidden that the model did not say itself. (The function
    of Atropos for it fails with transformers 5, which give no list unless they are told to.)"""

    def ids(count: int, *, opened: bool = False) -> list[int]:
        given = {"tokenize": True, "return_dict": False, "add_generation_prompt": opened}
        return list(tokenizer.apply_chat_template(chat[:count], **given))

    tokens = ids(len(chat))
    masks = [_HIDDEN] * len(tokens)
    for place, message in enumerate(chat):
        if message["role"] == "assistant":
            spoken = slice(len(ids(place, opened=True)), len(ids(place + 1)))
            masks[spoken] = tokens[spoken]
    return tokens, masks


def _result(raw: Mapping[str, Any], sample: list[dict[str, str]]) -> AgentResult:
    thoughts = [turn["value"].partition("</think>")[0] for turn in sample if turn["from"] == "gpt"]
    return AgentResult(
        messages=raw["messages"],
        turns_used=raw["api_calls"],
        finished_naturally=raw["completed"] and raw["turn_exit_reason"].startswith("text_response"),
        final_response=raw["final_response"] or "",
        error=raw["error"] or "",
        reasoning_per_turn=[thought.removeprefix("<think>").strip() for thought in thoughts],
        tool_errors=raw["tool_errors"],
    )
