"""Agents that speak ACP: their processes, their sessions, and the prompts they are given."""
