"""
The rule: which gpu is slow, since when, and why.

Pure: reports, rosters and marks in, verdicts out; no database, no HTTP and no clock, the time is an argument. Every
constant of the rule stands in `engine.rule`. `engine.evaluation.evaluate` is the whole, `engine.explanation` says why.
"""
