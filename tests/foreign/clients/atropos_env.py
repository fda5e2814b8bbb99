"""An environment of Atropos with our agents, as `docs/guides/batch.md` has one; run by its own command line.

Its tokenizer is made here, since none can be fetched: a word is a token."""

from __future__ import annotations

import sys
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from hermes.script.rl import AgentResult, HermesAgentBaseEnv, RolloutContext

TEMPLATE = (
    "{% for message in messages %} {{ message['role'] }} : {{ message['content'] }} eos{% endfor %}"
    "{% if add_generation_prompt %} assistant :{% endif %}"
)


class Sums(HermesAgentBaseEnv):
    async def setup(self) -> None:
        self.numbers = iter(range(1, 100))

    async def get_next_item(self) -> int:
        return next(self.numbers)

    def format_prompt(self, item: Any) -> str:
        return f"Write {item} plus {item} into sum.txt"

    async def compute_reward(self, item: Any, result: AgentResult, ctx: RolloutContext) -> float:
        assert result.finished_naturally and result.turns_used == 2, result
        assert result.reasoning_per_turn[0] == "easy" and not result.tool_errors, result
        assert ctx.read_file("sum.txt") == "2\n"
        return float((await ctx.terminal("cat sum.txt")).split()[-1] == str(2 * item))

    async def evaluate(self, *args: Any, **kwargs: Any) -> None:
        pass


def make_tokenizer(folder: str) -> None:
    words = Tokenizer(models.WordLevel({"[UNK]": 0, "assistant": 1, "eos": 2}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]", eos_token="eos")
    made.chat_template = TEMPLATE
    made.save_pretrained(folder)


if __name__ == "__main__":
    if sys.argv[1] == "tokenizer":
        make_tokenizer(sys.argv[2])
    else:
        Sums.cli()
