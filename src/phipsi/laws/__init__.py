"""Laws: functions of users in plain arithmetic, traced to a graph that every backend runs."""
