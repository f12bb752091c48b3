"""What drivers and host say of themselves: environment, clocks, power, temperatures, health."""
