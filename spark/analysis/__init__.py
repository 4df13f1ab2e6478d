"""What was measured, as tables: every function takes DataFrames and gives one."""
