"""The SDKs of three search services against the address that is named; prints what they understood."""

from __future__ import annotations

import json
import sys

from exa_py import Exa
from firecrawl import Firecrawl
from tavily import TavilyClient

url, page = sys.argv[1:]
tavily = TavilyClient("tvly-key", api_base_url=f"{url}/tavily")
exa = Exa("exa-key", base_url=f"{url}/exa")
firecrawl = Firecrawl(api_key="fc-key", api_url=url)
hit = exa.search("bees", num_results=3, contents={"highlights": True}).results[0]
web = firecrawl.search("bees", limit=3).web
assert web is not None
told = {
    "tavily": [
        tavily.search("bees")["results"][0]["content"],
        tavily.extract([page])["results"][0]["raw_content"],
    ],
    "exa": [hit.highlights, exa.get_contents([page], text=True).results[0].text],
    "firecrawl": [web[0].description, firecrawl.scrape(page, formats=["markdown"]).markdown],
}
print(json.dumps(told))
