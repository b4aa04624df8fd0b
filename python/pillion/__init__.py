"""What Python programs use of Pillion: pillion.oml reports measurements."""
