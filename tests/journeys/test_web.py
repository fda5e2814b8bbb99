"""An agent searches and reads pages, in a whole gateway and through the real wire."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from aiohttp import web

from hermes.app.overrides import AppOverrides
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.turns.event import Asked, ToolFinished
from hermes.testing.model import Say, ScriptedModel, call
from hermes.testing.model import say as speak
from tests.agent.test_demo_tools import living, say
from tests.execution.search_services import SearchServices, serve_searches
from tests.journeys.test_deferred_tools import results
from tests.journeys.test_first_prompt import ME

LONG = "\n".join(f"<p>line {number} of a very long page</p>" for number in range(3000))


Step = Say | Callable[[str], Say]


async def ask(
    tmp_path: Path, fake: SearchServices, steps: list[Step], config: str = ""
) -> list[ToolFinished]:
    """What came of each of the calls, made one after another."""

    def script(request: ModelRequest) -> Say:
        done = len(results(request))
        step = steps[done] if done < len(steps) else speak("done")
        return step(results(request)[-1]) if callable(step) else step

    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    private = "security: {allow_private_urls: true}\nterminal: {backend: local}\n"
    (home / "config.yaml").write_text(f"{private}web: {{searxng_url: '{fake.url}/searxng'{config}}}\n")
    async with living(home, AppOverrides(provider=ScriptedModel(script), platforms={})) as app:
        records = await say(app, "look for bees", source=ME)
    assert not [record for record in records if isinstance(record, Asked)]
    return [record for record in records if isinstance(record, ToolFinished)]


def arguments(**given: object) -> str:
    return json.dumps(given)


async def test_search_then_read_then_read_the_rest(tmp_path: Path) -> None:
    async with serve_searches() as fake:
        page = f"<html><head><title>Bees</title></head><body>{LONG}</body></html>"
        fake.broken = {"site": web.Response(text=page, content_type="text/html")}
        urls = [f"{fake.url}/site/bees", f"{fake.url}/nowhere/at/all", "http://169.254.169.254/latest"]

        def read_on(seen: str) -> Say:
            place = seen.partition("the whole text: read_file ")[2].partition(" …]")[0]
            return call("read_file", arguments(path=place, offset=2000, limit=3))

        searched, read, whole = await ask(
            tmp_path,
            fake,
            [
                call("web_search", arguments(query="  bees  ")),
                call("web_extract", arguments(urls=urls)),
                read_on,
            ],
            ", extract_char_limit: 4000",
        )
        assert searched.outside and "1. S\n   https://s.example/1\n   bees" in searched.text
        assert read.outside and not read.failed
        assert "# Bees" in read.text and "line 0 of" in read.text and "line 2999 of" in read.text
        assert len(read.text) < 6000 and "169.254.169.254/latest: not read." in read.text
        head = read.text.partition("# Bees\n\n")[2].partition("\n[… ")[0]
        assert len(head) == 3000, "three quarters"
        assert whole.outside, "still words of others"
        assert "2000|" in whole.text and "very long page" in whole.text


async def test_mistakes_of_the_model_are_said_in_one_sentence(tmp_path: Path) -> None:
    async with serve_searches() as fake:
        many = [f"https://{number}.example" for number in range(6)]
        empty, six, none, only = await ask(
            tmp_path,
            fake,
            [
                call("web_search", arguments(query=" ")),
                call("web_extract", arguments(urls=many)),
                call("web_extract", arguments(urls=[])),
                call("web_extract", arguments(urls=["file:///etc/passwd"])),
            ],
        )
        assert empty.failed and "The query is empty." in empty.text
        assert six.failed and "one to 5" in six.text and none.failed and "one to 5" in none.text
        assert only.failed and "http:// or https:// is wanted" in only.text and not only.outside
