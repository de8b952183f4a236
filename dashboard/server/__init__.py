"""Parts of a server that all pages share: settings, visitors, log, run queue and jobs of training."""
