"""What operators see of a running kernel: logs, the loop's watchdog, observers of turns."""
