NAME = "holidays of the markets"
