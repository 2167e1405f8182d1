"""What was sent and answered, as WARC files with a CDXJ index."""
