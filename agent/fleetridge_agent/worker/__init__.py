"""A process for each gpu that is measured, so that no hang, crash or lack of memory costs another gpu its report."""
