"""What inspect_ai 0.3.285 says of made-up scores, written by make.py."""
