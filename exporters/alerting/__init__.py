"""What people are told of: conditions over the windows, and how they begin and end."""
