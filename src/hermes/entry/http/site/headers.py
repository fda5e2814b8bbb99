"""The names of headers that clients send and are answered with, each written once."""

from __future__ import annotations

IDEMPOTENCY = "Idempotency-Key"
LAST_EVENT = "Last-Event-ID"
REQUEST_ID = "X-Request-Id"
SESSION_ID, SESSION_KEY = "X-Hermes-Session-Id", "X-Hermes-Session-Key"
CHAT_ID, USER_ID, THREAD_ID = "X-Hermes-Chat-Id", "X-Hermes-User-Id", "X-Hermes-Thread-Id"
RUN_ID = "X-Hermes-Run-Id"
RETRY_COUNT = "X-Stainless-Retry-Count"
"""How often the library of a client has tried before."""
RETRY_AFTER, SHOULD_RETRY = "Retry-After", "x-should-retry"
"""When to try again, and whether clients of OpenAI's may do so by themselves."""
COMPLETED, PARTIAL, ERROR = "X-Hermes-Completed", "X-Hermes-Partial", "X-Hermes-Error"
TELLING = (SESSION_ID, SESSION_KEY, CHAT_ID, USER_ID, THREAD_ID)
"""Where a request belongs and for whom it speaks."""

PAGES_MAY_SEND = ("Authorization", "Content-Type", IDEMPOTENCY, LAST_EVENT, *TELLING)
PAGES_MAY_READ = (
    *(REQUEST_ID, SESSION_ID, SESSION_KEY, RUN_ID, COMPLETED, PARTIAL, ERROR),
    *(RETRY_AFTER, SHOULD_RETRY),
)
"""What a page of another origin may send and read, once its origin is allowed. It may send what else its
browser asks for, too: the libraries that pages use have headers of their own."""
