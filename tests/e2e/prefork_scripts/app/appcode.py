GREETING = "from the archive"
