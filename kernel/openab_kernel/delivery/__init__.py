"""How the text of a turn becomes messages. Pure: text and settings in, messages out (spec: delivery.md)."""
