"""
Evaluations: when they are made, from what, and what becomes of them.

`evaluator` makes one, from the histories of a device's gpus to stored verdicts and alerts; `schedule` decides when, and
is the only one of all servers that does. `gpu_history` is what of a gpu's past is kept for it, `alert_causes` what
somebody has to be told of.
"""
