"""The steps of a batch: fold, save pages, publish, done."""
