"""The nouns: frozen, free of effects, and known to everyone above."""
