"""How what a plan cannot say is told."""


class Refusal(Exception):
  """One line that names the place in the file and what is wrong there."""
