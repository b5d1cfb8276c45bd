"""What page, terminal, reports and command-line tables share. It reads nothing: data come as arguments."""
