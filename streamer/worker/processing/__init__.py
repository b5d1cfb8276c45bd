"""What happens to a batch: fold, save pages, publish, done."""
