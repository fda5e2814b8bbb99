"""Numbered migrations. Each says the oldest program version of the schema that may still open the file;
an older program refuses a newer database politely and leaves it as it is."""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from hermes.domain.errors import UserError
from hermes.state.store.codec import hash_text
from hermes.state.store.table import Db


class DamagedDatabase(UserError):
    """The file is not what it was written as: nothing more may be written to it."""


class Migration(Struct, frozen=True, kw_only=True):
    """One step. `oldest` is the schema number a program must know to work with the result."""

    number: int
    oldest: int
    statements: tuple[str, ...]
    work: Callable[[Db], None] | None = None
    """What SQL alone cannot do, after the statements."""


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

LEAN = (
    "CREATE TABLE prompts (hash TEXT PRIMARY KEY, body TEXT NOT NULL, made_at REAL NOT NULL) WITHOUT ROWID",
    "ALTER TABLE sessions RENAME TO sessions_before",
    "DROP INDEX sessions_title",
    "DROP INDEX sessions_recent",
    "DROP INDEX sessions_expiry",
    """CREATE TABLE sessions (
        id TEXT PRIMARY KEY, agent TEXT NOT NULL, owner TEXT, place TEXT, title TEXT, parent TEXT,
        model TEXT, busy_mode TEXT, prompt TEXT, place_prompt TEXT, tools TEXT, ended TEXT,
        created_at REAL NOT NULL, updated_at REAL NOT NULL, expires_at REAL,
        yolo INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID""",
    "CREATE UNIQUE INDEX sessions_title ON sessions (agent, title) WHERE title IS NOT NULL",
    "CREATE INDEX sessions_recent ON sessions (agent, updated_at)",
    "CREATE INDEX sessions_expiry ON sessions (expires_at) WHERE expires_at IS NOT NULL",
    # The number of a turn's first record. Where there is none, its records are looked for in all of its
    # session, and the turn is found by its session through an index that others do not need.
    "ALTER TABLE turns ADD COLUMN since INTEGER",
    "CREATE INDEX turns_without_records ON turns (session) WHERE since IS NULL",
    "DROP INDEX turns_session",
    "DROP INDEX turns_due",
    "CREATE INDEX turns_accepted ON turns (n) WHERE state = 'accepted'",
    "DROP INDEX journal_turn",
)


def _move_sessions(db: Db) -> None:
    """Each prompt is kept once from now on, by its hash."""
    db.run("CREATE TABLE prompt_hashes (body TEXT PRIMARY KEY, hash TEXT NOT NULL) WITHOUT ROWID")
    used = "SELECT system_prompt, max(updated_at) FROM sessions_before WHERE system_prompt IS NOT NULL"
    for body, at in db.all(f"{used} GROUP BY system_prompt"):
        db.run("INSERT INTO prompt_hashes VALUES (?, ?)", body, hash_text(body))
        db.run("INSERT OR IGNORE INTO prompts VALUES (?, ?, ?)", hash_text(body), body, at)
    same = "id, agent, owner, place, title, parent, model, busy_mode, ended, created_at, updated_at"
    same += ", expires_at, yolo"
    db.run(
        f"INSERT INTO sessions ({same}, prompt) SELECT {same}, hash FROM sessions_before"
        " LEFT JOIN prompt_hashes ON body = system_prompt ORDER BY id"
    )
    db.run("DROP TABLE sessions_before")
    db.run("DROP TABLE prompt_hashes")


HISTORY = (
    # How a session is read from its last summary on, without looking at what is before it.
    "CREATE INDEX journal_marks ON journal (session, seq) WHERE kind IN ('summarised', 'undone')",
    """CREATE TABLE session_grants (
        session TEXT NOT NULL, agent TEXT NOT NULL, person TEXT NOT NULL, digest TEXT NOT NULL,
        seq INTEGER NOT NULL, PRIMARY KEY (session, person, digest)) WITHOUT ROWID""",
    """INSERT OR IGNORE INTO session_grants
        WITH asked AS (
          SELECT session, seq, kind, iif(json_valid(body), body, '{}') AS body FROM journal
          WHERE kind IN ('asked', 'answered'))
        SELECT a.session, s.agent, json_extract(a.body, '$.by'), json_extract(q.body, '$.digest'), a.seq
        FROM asked a JOIN sessions s ON s.id = a.session
          JOIN asked q ON q.session = a.session AND q.kind = 'asked' AND q.seq < a.seq
            AND json_extract(q.body, '$.question') = json_extract(a.body, '$.question')
        WHERE a.kind = 'answered' AND json_extract(a.body, '$.verdict') = 'session'
          AND json_extract(a.body, '$.by') != '' AND json_extract(q.body, '$.digest') != ''
        ORDER BY a.seq""",
)

EVERY_AGENT = (
    # Asked over all agents, so not by agent.
    "DROP INDEX jobs_due",
    "CREATE INDEX jobs_due ON jobs (next_due) WHERE next_due IS NOT NULL",
    "CREATE INDEX requests_by_key ON requests (owner, key) WHERE key IS NOT NULL",
)

WORKSPACES = ("ALTER TABLE sessions ADD COLUMN workspace TEXT",)

TRANSFERS = ("ALTER TABLE outbox ADD COLUMN transfers INTEGER NOT NULL DEFAULT 0",)

_COUNTS = ["calls", "prompt", "completion", "cached", "reasoning", "cache_written", "unpriced"]
USAGE = (
    f"""CREATE TABLE usage_days (
        day TEXT NOT NULL, agent TEXT NOT NULL, person TEXT NOT NULL, job TEXT NOT NULL, model TEXT NOT NULL,
        role TEXT NOT NULL, {", ".join(f"{name} INTEGER NOT NULL" for name in _COUNTS)}, cost REAL NOT NULL,
        PRIMARY KEY (day, agent, person, job, model, role)) WITHOUT ROWID""",
    """CREATE TABLE auxiliary_calls (
        n INTEGER PRIMARY KEY AUTOINCREMENT, agent TEXT NOT NULL, session TEXT NOT NULL, turn TEXT,
        at REAL NOT NULL, role TEXT NOT NULL, model TEXT NOT NULL, prompt INTEGER NOT NULL,
        completion INTEGER NOT NULL, cached INTEGER NOT NULL, reasoning INTEGER NOT NULL,
        cache_written INTEGER NOT NULL, cost REAL)""",
    "CREATE INDEX auxiliary_calls_session ON auxiliary_calls (session)",
)

PROMPT_TIERS = (
    "ALTER TABLE sessions ADD COLUMN context TEXT",
    "ALTER TABLE sessions ADD COLUMN manner BLOB",
)

BUDGETS = (
    """CREATE TABLE budget_spend (
        budget TEXT NOT NULL, period TEXT NOT NULL, turns INTEGER NOT NULL, calls INTEGER NOT NULL,
        tokens INTEGER NOT NULL, dollars REAL NOT NULL, PRIMARY KEY (budget, period)) WITHOUT ROWID""",
    """CREATE TABLE budget_holds (
        turn TEXT NOT NULL, budget TEXT NOT NULL, period TEXT NOT NULL, calls REAL NOT NULL,
        tokens REAL NOT NULL, dollars REAL NOT NULL, PRIMARY KEY (turn, budget)) WITHOUT ROWID""",
)

COMPRESSIONS = (
    "DROP INDEX journal_marks",
    "CREATE INDEX journal_marks ON journal (session, seq) WHERE kind IN ('summarised', 'undone', 'restored')",
    """CREATE TABLE compressions (
        n INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL UNIQUE, agent TEXT NOT NULL,
        not_before REAL NOT NULL, tries INTEGER NOT NULL DEFAULT 0, base INTEGER NOT NULL DEFAULT 0,
        kind TEXT, body TEXT)""",
)

MEMORY = (
    """CREATE TABLE memory (
        n INTEGER PRIMARY KEY AUTOINCREMENT, agent TEXT NOT NULL, target TEXT NOT NULL, person TEXT NOT NULL,
        text TEXT NOT NULL, author TEXT NOT NULL, turn TEXT, at REAL NOT NULL, used_at REAL NOT NULL,
        in_prompt INTEGER NOT NULL, shared INTEGER NOT NULL)""",
    "CREATE INDEX memory_person ON memory (agent, person, target)",
    "CREATE INDEX memory_shared ON memory (agent) WHERE shared",
    """CREATE VIRTUAL TABLE memory_words USING fts5 (text, content = 'memory', content_rowid = 'n',
        tokenize = 'unicode61 remove_diacritics 2')""",
    # Which entries the words of a session name, so that each is told once.
    """CREATE TABLE named_notes (
        session TEXT NOT NULL, note INTEGER NOT NULL, agent TEXT NOT NULL, PRIMARY KEY (session, note)
        ) WITHOUT ROWID""",
    "CREATE INDEX named_notes_note ON named_notes (note)",
    # The last change that each session made, so that it counts once.
    """CREATE TABLE memory_keys (
        session TEXT PRIMARY KEY, key TEXT NOT NULL, agent TEXT NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE memory_files (
        agent TEXT NOT NULL, name TEXT NOT NULL, text TEXT NOT NULL, PRIMARY KEY (agent, name)
        ) WITHOUT ROWID""",
)

TRACES = (
    """CREATE TABLE session_traces (
        session TEXT NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL, agent TEXT NOT NULL,
        PRIMARY KEY (session, kind, text)) WITHOUT ROWID""",
)

FLUSHES = (
    # `wanted` is since when a session is to be flushed, NULL if it is not; `upto` is the record up to which
    # it was.
    """CREATE TABLE flushes (
        n INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL UNIQUE, agent TEXT NOT NULL,
        wanted REAL, upto INTEGER NOT NULL DEFAULT 0)""",
    "CREATE INDEX flushes_wanted ON flushes (n) WHERE wanted IS NOT NULL",
)

CHECKPOINTS = (
    """CREATE TABLE checkpoints (
        id INTEGER PRIMARY KEY AUTOINCREMENT, agent TEXT NOT NULL, session TEXT NOT NULL, turn TEXT NOT NULL,
        root TEXT NOT NULL, before TEXT NOT NULL, after TEXT NOT NULL, label TEXT NOT NULL, at REAL NOT NULL,
        UNIQUE (agent, turn))""",
    "CREATE INDEX checkpoints_root ON checkpoints (root, id)",
    "CREATE INDEX checkpoints_session ON checkpoints (session)",
)

PROCESSES = (
    """CREATE TABLE awaited_processes (
        id TEXT PRIMARY KEY, session TEXT NOT NULL, agent TEXT NOT NULL, body BLOB NOT NULL)""",
)

ARCHIVING = (
    "ALTER TABLE sessions ADD COLUMN archived INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE sessions ADD COLUMN tag TEXT",
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
    Migration(number=11, oldest=11, statements=LEAN, work=_move_sessions),
    Migration(number=12, oldest=12, statements=HISTORY),
    Migration(number=13, oldest=12, statements=EVERY_AGENT),
    Migration(number=14, oldest=12, statements=WORKSPACES),
    Migration(number=15, oldest=12, statements=TRANSFERS),
    Migration(number=16, oldest=12, statements=USAGE),
    Migration(number=17, oldest=12, statements=PROMPT_TIERS),
    Migration(number=18, oldest=12, statements=BUDGETS),
    Migration(number=19, oldest=19, statements=COMPRESSIONS),
    Migration(number=20, oldest=19, statements=MEMORY),
    Migration(number=21, oldest=19, statements=TRACES),
    Migration(number=22, oldest=19, statements=FLUSHES),
    Migration(number=23, oldest=19, statements=CHECKPOINTS),
    Migration(number=24, oldest=19, statements=PROCESSES),
    Migration(number=25, oldest=19, statements=ARCHIVING),
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
        if step.work is not None:
            step.work(db)
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
