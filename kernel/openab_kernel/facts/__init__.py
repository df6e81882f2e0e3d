"""Frozen models of what is known: about an event, a conversation, a turn, a send.

They hold no behaviour beyond their own validation, and only ever gain fields.
"""
