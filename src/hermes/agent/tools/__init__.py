"""The tools of the agent: each module registers its own when it is imported.

The order of the imports is the order of the tools in every request to a model, and on the reference page."""

# isort: off
from hermes.agent.tools import files as files, history as history, jobs as jobs, messaging as messaging
from hermes.agent.tools import patch as patch, clarify_todo as clarify_todo, terminal as terminal
from hermes.agent.tools import memory as memory, skills as skills, web as web
from hermes.agent.tools import code as code, delegate as delegate
from hermes.agent.tools import browser as browser, media as media, house as house
from hermes.agent.tools.registry import TOOLS

make_tools = TOOLS.make
"""The entry point of the tools that Hermes brings along."""
