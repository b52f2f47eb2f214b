"""The four destinations, as somebody beside setpoint sees and changes them."""
