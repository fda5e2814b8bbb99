"""Numbered migrations. Each says the oldest program version of the schema that may still open the file;
an older program refuses a newer database politely and leaves it as it is."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hermes.domain.errors import UserError
from hermes.state.store.table import Db


class DamagedDatabase(UserError):
    """The file is not what it was written as: nothing more may be written to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One step. `oldest` is the schema number a program must know to work with the result."""

    number: int
    oldest: int
    statements: tuple[str, ...]


FIRST = (
    """CREATE TABLE inbox (
        n INTEGER PRIMARY KEY AUTOINCREMENT, account TEXT NOT NULL, delivery TEXT NOT NULL,
        ref TEXT, body BLOB NOT NULL, accepted_at REAL NOT NULL, outcome TEXT, turn TEXT,
        UNIQUE (account, delivery))""",
    "CREATE INDEX inbox_pending ON inbox (n) WHERE outcome IS NULL",
    "CREATE INDEX inbox_ref ON inbox (ref) WHERE ref IS NOT NULL",
    "CREATE INDEX inbox_turn ON inbox (turn) WHERE turn IS NOT NULL",
    "CREATE INDEX inbox_age ON inbox (accepted_at)",
    "CREATE TABLE cursors (account TEXT PRIMARY KEY, cursor TEXT NOT NULL, at REAL NOT NULL)",
    """CREATE TABLE sessions (
        id TEXT PRIMARY KEY, agent TEXT NOT NULL, owner TEXT, place TEXT, title TEXT, parent TEXT,
        model TEXT, busy_mode TEXT, system_prompt TEXT, ended TEXT,
        created_at REAL NOT NULL, updated_at REAL NOT NULL)""",
    "CREATE UNIQUE INDEX sessions_title ON sessions (agent, title) WHERE title IS NOT NULL",
    "CREATE INDEX sessions_recent ON sessions (agent, updated_at)",
    """CREATE TABLE bindings (
        agent TEXT NOT NULL, platform TEXT NOT NULL, account TEXT NOT NULL, kind TEXT NOT NULL,
        chat TEXT NOT NULL, thread TEXT NOT NULL, user TEXT NOT NULL,
        session TEXT NOT NULL, source BLOB NOT NULL, at REAL NOT NULL,
        PRIMARY KEY (agent, platform, account, kind, chat, thread, user)) WITHOUT ROWID""",
    "CREATE INDEX bindings_session ON bindings (session)",
    """CREATE TABLE turns (
        n INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, session TEXT NOT NULL,
        agent TEXT NOT NULL, cause TEXT NOT NULL, state TEXT NOT NULL, input BLOB NOT NULL,
        source BLOB, reply BLOB, busy TEXT NOT NULL, attempt INTEGER NOT NULL, progress INTEGER NOT NULL,
        crashes INTEGER NOT NULL, epoch INTEGER NOT NULL, ready_at REAL, stop TEXT, absorbed_by TEXT,
        ephemeral INTEGER NOT NULL, created_at REAL NOT NULL)""",
    "CREATE INDEX turns_open ON turns (session, n) WHERE state IN ('accepted', 'running', 'waiting')",
    "CREATE INDEX turns_due ON turns (n) WHERE state IN ('accepted', 'running')",
    "CREATE INDEX turns_session ON turns (session)",
    """CREATE TABLE journal (
        n INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, seq INTEGER NOT NULL,
        turn TEXT NOT NULL, at REAL NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL,
        UNIQUE (session, seq))""",
    "CREATE INDEX journal_turn ON journal (turn)",
    """CREATE TABLE outbox (
        n INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, lane TEXT NOT NULL,
        account TEXT NOT NULL, turn TEXT, part INTEGER NOT NULL, draft INTEGER NOT NULL,
        body BLOB NOT NULL, reply_to TEXT, state TEXT NOT NULL, attempts INTEGER NOT NULL,
        next_at REAL, receipt BLOB, error TEXT NOT NULL, created_at REAL NOT NULL)""",
    """CREATE INDEX outbox_open ON outbox (lane, n)
        WHERE draft = 0 AND state IN ('due', 'attempting', 'unknown')""",
    """CREATE INDEX outbox_account ON outbox (account, n)
        WHERE draft = 0 AND state IN ('due', 'attempting', 'unknown')""",
    "CREATE INDEX outbox_turn ON outbox (turn)",
    "CREATE INDEX outbox_age ON outbox (created_at)",
    """CREATE TABLE questions (
        id TEXT PRIMARY KEY, agent TEXT NOT NULL, session TEXT NOT NULL, turn TEXT NOT NULL,
        body BLOB NOT NULL, expires_at REAL, verdict TEXT, answer TEXT NOT NULL, answered_by TEXT)""",
    "CREATE INDEX questions_session ON questions (session) WHERE verdict IS NULL",
    "CREATE INDEX questions_turn ON questions (turn)",
    "CREATE INDEX questions_expiry ON questions (expires_at) WHERE verdict IS NULL",
    """CREATE TABLE jobs (
        id TEXT PRIMARY KEY, agent TEXT NOT NULL, next_due REAL, body BLOB NOT NULL)""",
    """CREATE TABLE job_slots (
        job TEXT NOT NULL, due REAL NOT NULL, PRIMARY KEY (job, due)) WITHOUT ROWID""",
    """CREATE TABLE media (
        agent TEXT NOT NULL, sha256 TEXT NOT NULL, path TEXT NOT NULL, size INTEGER NOT NULL,
        mime TEXT NOT NULL, stored_at REAL NOT NULL, PRIMARY KEY (agent, sha256)) WITHOUT ROWID""",
    """CREATE TABLE leases (
        name TEXT PRIMARY KEY, owner TEXT NOT NULL, epoch INTEGER NOT NULL, until REAL NOT NULL)""",
    """CREATE TABLE boots (
        epoch INTEGER PRIMARY KEY AUTOINCREMENT, started_at REAL NOT NULL, closed_at REAL)""",
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE VIEW said AS SELECT n, json_extract(body, '$.text') AS text FROM journal
        WHERE kind IN ('user_said', 'model_said')""",
    """CREATE VIRTUAL TABLE words USING fts5 (text, content = 'said', content_rowid = 'n',
        tokenize = 'unicode61 remove_diacritics 2')""",
    """CREATE VIRTUAL TABLE letters USING fts5 (text, content = 'said', content_rowid = 'n',
        tokenize = 'trigram')""",
    "INSERT INTO facts VALUES ('indexed', '0')",
)

SECOND = (
    """CREATE TABLE requests (
        id TEXT PRIMARY KEY, agent TEXT NOT NULL, owner TEXT NOT NULL, turn TEXT NOT NULL,
        session TEXT NOT NULL, key TEXT, fingerprint TEXT NOT NULL, conversation TEXT, facts TEXT NOT NULL,
        created_at REAL NOT NULL)""",
    "CREATE UNIQUE INDEX requests_key ON requests (agent, owner, key) WHERE key IS NOT NULL",
    """CREATE INDEX requests_conversation ON requests (agent, owner, conversation)
        WHERE conversation IS NOT NULL""",
    "CREATE INDEX requests_session ON requests (session)",
    "CREATE INDEX requests_age ON requests (created_at)",
    "ALTER TABLE sessions ADD COLUMN expires_at REAL",
    "CREATE INDEX sessions_expiry ON sessions (expires_at) WHERE expires_at IS NOT NULL",
)

THIRD = (
    """CREATE TABLE guidance (
        turn TEXT PRIMARY KEY, agent TEXT NOT NULL, session TEXT NOT NULL, body BLOB NOT NULL)""",
    "CREATE INDEX guidance_session ON guidance (session)",
)

PAIRING = (
    """CREATE TABLE pairings (
        platform TEXT NOT NULL, account TEXT NOT NULL, user TEXT NOT NULL, name TEXT NOT NULL,
        approved_at REAL NOT NULL, approved_by TEXT NOT NULL,
        PRIMARY KEY (platform, account, user)) WITHOUT ROWID""",
    """CREATE TABLE pairing_codes (
        n INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, platform TEXT NOT NULL,
        account TEXT NOT NULL, salt BLOB NOT NULL, digest BLOB NOT NULL, created_at REAL NOT NULL,
        expires_at REAL NOT NULL, user TEXT, name TEXT NOT NULL, place TEXT, made_by TEXT NOT NULL)""",
    "CREATE TABLE pairing_marks (name TEXT PRIMARY KEY, count INTEGER NOT NULL, until REAL) WITHOUT ROWID",
)

JOBS = (
    "ALTER TABLE job_slots ADD COLUMN agent TEXT",
    "ALTER TABLE job_slots ADD COLUMN state TEXT NOT NULL DEFAULT 'over'",
    "ALTER TABLE job_slots ADD COLUMN body BLOB",
    "CREATE INDEX job_slots_open ON job_slots (agent, due) WHERE state != 'over'",
    "CREATE INDEX job_slots_recent ON job_slots (agent, due)",
    "CREATE INDEX jobs_due ON jobs (agent, next_due) WHERE next_due IS NOT NULL",
)

CHANNELS = (
    """CREATE TABLE channels (
        address TEXT PRIMARY KEY, account TEXT NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL,
        guild TEXT NOT NULL, seen_at REAL NOT NULL) WITHOUT ROWID""",
    "CREATE INDEX channels_recent ON channels (seen_at)",
    "CREATE TABLE homes (account TEXT PRIMARY KEY, address TEXT NOT NULL, at REAL NOT NULL) WITHOUT ROWID",
)

GRANTS = (
    "ALTER TABLE sessions ADD COLUMN yolo INTEGER NOT NULL DEFAULT 0",
    """CREATE TABLE grants (
        agent TEXT NOT NULL, person TEXT NOT NULL, digest TEXT NOT NULL, id TEXT NOT NULL UNIQUE,
        text TEXT NOT NULL, by TEXT NOT NULL, at REAL NOT NULL,
        PRIMARY KEY (agent, person, digest)) WITHOUT ROWID""",
)

PREPARING = (
    """CREATE TABLE overheard (
        n INTEGER PRIMARY KEY AUTOINCREMENT, agent TEXT NOT NULL, place TEXT NOT NULL, body BLOB NOT NULL,
        at REAL NOT NULL)""",
    "CREATE INDEX overheard_place ON overheard (agent, place, n)",
    "CREATE INDEX overheard_age ON overheard (at)",
    """CREATE TABLE told (
        agent TEXT NOT NULL, session TEXT NOT NULL, place TEXT NOT NULL, n INTEGER NOT NULL,
        PRIMARY KEY (session, place)) WITHOUT ROWID""",
    "CREATE INDEX outbox_receipts ON outbox (lane, n) WHERE receipt IS NOT NULL AND draft = 0",
)

HANDOFFS = (
    """CREATE TABLE handoffs (
        id TEXT PRIMARY KEY, agent TEXT NOT NULL, session TEXT NOT NULL, state TEXT NOT NULL,
        attempts INTEGER NOT NULL, created_at REAL NOT NULL, body BLOB NOT NULL) WITHOUT ROWID""",
    "CREATE UNIQUE INDEX handoffs_open ON handoffs (session) WHERE state IN ('pending', 'running')",
    "CREATE INDEX handoffs_age ON handoffs (agent, created_at)",
)

MIGRATIONS = (
    Migration(number=1, oldest=1, statements=FIRST),
    Migration(number=2, oldest=2, statements=SECOND),
    Migration(number=3, oldest=3, statements=THIRD),
    Migration(number=4, oldest=4, statements=PAIRING),
    Migration(number=5, oldest=5, statements=JOBS),
    Migration(number=6, oldest=5, statements=CHANNELS),
    Migration(number=7, oldest=7, statements=GRANTS),
    Migration(number=9, oldest=9, statements=PREPARING),
    Migration(number=10, oldest=9, statements=HANDOFFS),
)
NEWEST = MIGRATIONS[-1].number


def check_version(db: Db, file: str) -> int:
    """The schema number of the file, or why this program must not touch it. Reads only."""
    number = int(db.value("PRAGMA user_version"))
    tables = {row[0] for row in db.all("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if not tables and number == 0:
        return 0
    if tables and not tables & _OURS:
        raise UserError(f"{file} belongs to another program.", hint="Point HERMES_HOME at another home.")
    if number > NEWEST and "facts" in tables:
        oldest = db.value("SELECT value FROM facts WHERE name = 'oldest_program'")
        if oldest is None or int(oldest) > NEWEST:
            raise UserError(
                f"{file} was written by a newer Hermes (schema {number}, this one knows {NEWEST}).",
                hint="Update Hermes, or point HERMES_HOME at another home.",
            )
    step = max((known for known in _TABLES if known <= number), default=0)
    missing = _TABLES[step] - tables if step > 0 else {"its version"}
    if missing:
        raise DamagedDatabase(f"{file} is damaged: it lacks {', '.join(sorted(missing))}.")
    return number


def migrate(db: Db, file: str) -> None:
    """Bring the file up to date, or say why this program must not touch it. Runs in one transaction."""
    number = check_version(db, file)
    for step in (step for step in MIGRATIONS if step.number > number):
        for statement in step.statements:
            db.run(statement)
        db.run("INSERT OR REPLACE INTO facts VALUES ('oldest_program', ?)", str(step.oldest))
        db.run(f"PRAGMA user_version = {step.number}")


def _tables_by_number() -> dict[int, set[str]]:
    known: set[str] = set()
    by_number: dict[int, set[str]] = {}
    for step in MIGRATIONS:
        text = " ".join(step.statements)
        known = by_number[step.number] = known | set(_CREATED.findall(text))
    return by_number


_CREATED = re.compile(r"CREATE (?:VIRTUAL )?TABLE (\w+)")
_TABLES = _tables_by_number()
_OURS = {"facts", "boots"}
