"""What a server does for all pages: settings, login, logs, counters, run queue and training workers."""
