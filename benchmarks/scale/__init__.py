"""What a run and a visitor cost, a simulation with those figures, and the load programme it has to meet."""
