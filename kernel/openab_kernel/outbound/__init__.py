"""Sends that are owed, and how they get out. Knows nothing of turns: a turn is only a name on an intent."""
