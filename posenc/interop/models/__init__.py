"""Real models: what their config.json says of position."""
