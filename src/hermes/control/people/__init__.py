"""Who may speak, how people are let in by pairing, and which agent their words go to."""
