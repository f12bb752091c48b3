"""
Calls that bring reports, from a body to its answer.

`queue` has those that wait taken in together by the workers that are free; a `worker` is a process of its own, so that
neither reads nor other workers wait for Python, or this process; `taking` is what either does.
"""
