"""Programs that speak, write speech down, and turn sounds and pictures into other ones."""
