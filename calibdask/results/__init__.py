"""What a result is: built, read back, formatted, tabled and ranked."""
