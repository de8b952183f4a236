"""What a server does for all pages: settings, visitors, logs, counters, run queue and training workers."""
