"""What Python programs use of Pillion: oml reports measurements, histogram reads those of rows."""
