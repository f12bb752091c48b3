"""
Calls that bring reports, from a body to its answer.

`queue` has those that wait taken in together by the `workers` that are free. A worker is a process of its own
(`worker_process`), so that neither pages nor other workers wait for Python, or a thread of this one; `taking` is what
either does.
"""
