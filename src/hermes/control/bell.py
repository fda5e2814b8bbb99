"""Resting until somebody rings or it is time: what loops that look for work do between two looks."""

from __future__ import annotations

import asyncio

from hermes.domain.clock import Clock


async def wait_for_ring(bell: asyncio.Event, clock: Clock, seconds: float, name: str) -> None:
    """Until the bell rings, or for so many seconds."""
    ringing = asyncio.create_task(bell.wait(), name=f"{name} bell")
    alarm = asyncio.create_task(clock.sleep(seconds), name=f"{name} alarm")
    try:
        await asyncio.wait((ringing, alarm), return_when=asyncio.FIRST_COMPLETED)
    finally:
        ringing.cancel()
        alarm.cancel()
