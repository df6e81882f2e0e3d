"""The kit for plugin authors: fakes that pass the same contract tests as the real thing."""
