"""A session and its turns: events, transcripts, waiting calls, references and jobs."""
