"""Files of jobs in an agent's home: what their runs said (`cron/output/<job>/<time>.md`), and the jobs of
Hermes Agent (`cron/jobs.json`), which are read and never written. Everything here blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hermes.domain.errors import UserError
from hermes.state.home.jsonfile import read_json
from hermes.state.home.textfile import replace_text

FOLDER = "cron"
JOBS_FILE = "cron/jobs.json"
_MOST_BYTES = 16 * 1024 * 1024


def keep_output(home: Path, job: str, file: str, text: str, most: int) -> Path:
    """Write a run's file, whole or not at all, and remove the oldest beyond so many."""
    folder = home / FOLDER / "output" / job
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_text(folder / file, text, 0o600)
        for old in sorted(folder.glob("*.md"))[:-most]:
            old.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(
            f"{folder} cannot be written ({error.strerror}).", hint="Check its owner and rights."
        ) from error
    return folder / file


def read_jobs_file(home: Path) -> list[dict[str, Any]]:
    """The jobs that Hermes Agent left behind, as they stand; none if there is no such file."""
    told = read_json(home / JOBS_FILE, _MOST_BYTES) or []
    jobs = told.get("jobs") if isinstance(told, dict) else told
    if not isinstance(jobs, list):
        raise UserError(f"{home / JOBS_FILE} has no list of jobs.", hint="Its jobs were not taken over.")
    return [job for job in jobs if isinstance(job, dict)]
