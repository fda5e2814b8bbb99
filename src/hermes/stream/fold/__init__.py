"""What every face shares: a turn's feed folded into texts, tool lines, questions and its end."""
