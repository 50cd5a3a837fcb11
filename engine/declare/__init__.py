"""Declarations of strategies: parameters, their groups, and the loop exported code includes."""
