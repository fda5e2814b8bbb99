"""Says a sentence and hears it again, with the engines of an agent, in a Python that has faster-whisper."""

import asyncio
import json
import sys
from pathlib import Path

from hermes.app.agents.media import AgentMedia
from hermes.domain.clock import SystemClock
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.settings.media import LocalStt, SttSettings, TtsSettings
from hermes.domain.settings.settings import Profile, Settings
from hermes.state.files.media import MediaFiles
from hermes.state.store.writer import SqliteStore


async def main(folder: Path, model: str, engine: str, sentence: str) -> None:
    stt = SttSettings(local=LocalStt(model=model, language="en"))
    settings = Settings(stt=stt, tts=TtsSettings(provider=engine))
    store = await SqliteStore(folder / "state.db").open()
    agents = store.scoped(MAIN_AGENT)
    media = AgentMedia(
        profile=Profile(agent=MAIN_AGENT, home=folder, settings=settings),
        store=agents,
        models=None,  # type: ignore[arg-type]
        egress=None,  # type: ignore[arg-type]
        media=MediaFiles(folder / "media", agents, SystemClock()),
    )
    speak, hear = media.speaker(), media.transcriber()
    assert speak is not None and hear is not None
    file, _ = await speak(sentence)
    text, _ = await hear(file)
    print(json.dumps({"kind": file.kind, "mime": file.mime, "text": text}))
    await store.close()


asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
