"""Results that several pages draw: position similarity, trained runs, uploads; each is cached."""
