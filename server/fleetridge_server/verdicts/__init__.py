"""What an evaluation says, as it is kept and read back."""
