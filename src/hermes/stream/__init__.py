"""One event stream, many faces: fold, console, SSE, drafts, markdown, splitting."""
