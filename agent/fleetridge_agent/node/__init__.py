"""What the host and its driver say of themselves: environment, roster, telemetry, other users."""
