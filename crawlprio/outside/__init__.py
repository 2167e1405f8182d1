"""What is taken from folders of others: files, and classes that the user names."""
