"""Pure decisions: values in, a value with a reason code out. No clock, no log, no network, no state."""
