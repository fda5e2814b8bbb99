"""What a terminal and a running gateway say to each other."""
