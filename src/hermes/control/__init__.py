"""The gateway: who may speak, which session it is, one actor per session, one lane per chat."""
