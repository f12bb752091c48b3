"""The shapes of answers, and how they are filled from what the fleet and its evaluations are."""
