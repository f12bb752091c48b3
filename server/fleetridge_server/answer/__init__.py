"""The shapes of answers, and how they are filled from rows and comparisons."""
