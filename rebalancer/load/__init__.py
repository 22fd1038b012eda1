"""How busy nodes and pods are (LoadReport), and what the scheduler's plugins see of it (SchedulerView)."""
