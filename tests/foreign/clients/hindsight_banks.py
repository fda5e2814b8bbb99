"""The client of Hindsight against the server whose address is given: retains, recalls, deletes, and prints
what it recalled before and after as JSON."""

from __future__ import annotations

import asyncio
import json
import sys

from hindsight_client import Hindsight


async def live(url: str, key: str) -> list[list[str]]:
    client = Hindsight(base_url=url, api_key=key)
    try:
        kept = await client.aretain("b", "Ann likes oolong", document_id="t1", retain_async=True)
        assert kept.success and kept.items_count == 1
        before = [fact.text for fact in (await client.arecall("b", "oolong?")).results]
        await client.adelete_bank("b")
        return [before, [fact.text for fact in (await client.arecall("b", "oolong?")).results]]
    finally:
        await client.aclose()


print(json.dumps(asyncio.run(live(*sys.argv[1:3]))))
