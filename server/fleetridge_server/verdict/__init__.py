"""
Verdicts: which gpu is slow, since when, and why.

Pure: reports, rosters and marks in, verdicts out; no database, no HTTP and no clock, the time is an argument.
`evaluation.evaluate` is the whole and `explanation.explanations` says why; the other rooms are their parts, in the
order of the work: `evidence` (what a report says), `plausibility` and `flop_per_clock` (what cannot be right),
`identities` (whom two nodes claim), `members` and `carrying` (what each gpu counts for, upgrades or not), `scale`,
`levels`, `halves`, `populations` and `judgement` (each gpu beside its peers), `discovery` and `accusation`
(when to accuse), `drift`, `shared_drift`, `epochs` and `histories` (each gpu beside its own past), `state`, `nodes`,
`notices`, `peers`, `reasons` and `remedies` (what people read), `marks` (what people decided) and `straggler` (what it
costs).
"""
