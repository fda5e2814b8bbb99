"""`/v1/usage`: what models took, by day and by model, agent, person, job or role. A key sees what was spent
through itself; one that may administer sees everything."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from hermes.control.usage import LONGEST_REPORT, UsageQuery, UsageReport
from hermes.entry.http.site.admission import KeyScope
from hermes.entry.http.site.endpoint import HttpCall, route
from hermes.entry.http.site.errors import ApiError


@route("GET", "/v1/usage", "What models took: tokens, cache and cost, by day.", refuses=(403,))
async def read_usage(
    call: HttpCall,
    days: Annotated[int, msgspec.Meta(ge=1, le=LONGEST_REPORT)] = 30,
    by: Literal["model", "agent", "person", "job", "role"] = "model",
    person: str = "",
) -> UsageReport:
    """`person` is one alone, such as `telegram:123456`; only keys with the scope `admin` may name another
    than themselves. Days are those of UTC, today included."""
    if not call.principal.may(KeyScope.ADMIN):
        if person not in ("", call.credential):
            raise ApiError(403, "forbidden", "This key may see its own usage only: leave out “person”.")
        person = call.credential
    await call.gateway.count_usage()
    query = UsageQuery(by=by, days=days, now=call.site.clock.now(), person=person)
    return query.report(await call.collect(query.read))
