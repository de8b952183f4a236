"""What a server does for all pages: settings, visitors, log, run queue and jobs of training."""
