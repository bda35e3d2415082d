"""Losses of training steps are what the model says: of several batches, of
labels that the model shifts itself, of none that counts; and of deep models.

Usage: train_losses_test.py SOURCE_DIR TOOLS_DIR
"""

import sys
import unittest

from train_tool import QUICK, TrainTest

# Tokens are bytes; spaces are no labels. Rows have them in unequal numbers.
IGNORED = 32
MODEL = """asyra 1 global
program @f(%ids: i64[{b}, 8], %labels: i64[{b}, 8],
    %table: f64[256, 8] weight, %head: f64[8, 256] weight) -> (f64[]) {{
  %x = embedding(%table, %ids) : f64[{b}, 8, 8]
  %h = tanh(%x) : f64[{b}, 8, 8]
  %y = matmul(%h, %head) : f64[{b}, 8, 256]
{loss}  return %loss
}}
"""
LOSSES = """  %losses = cross_entropy(%y, %labels) {{ignore_index=32}} : f64[{b}, 8]
"""
SUM = """  %sum = reduce_sum(%losses) {{dims=[0, 1], keep=false}} : f64[]
"""
COUNT = """  %space = constant() {{value=i64[](32)}} : i64[]
  %ignored = equal(%labels, %space) : bool[{b}, 8]
  %counts = not(%ignored) : bool[{b}, 8]
  %numbers = cast(%counts) {{to=f64}} : f64[{b}, 8]
  %count = reduce_sum(%numbers) {{dims=[0, 1], keep=false}} : f64[]
"""
MEAN = """  %mean = reduce_mean(%losses) {{dims=[0, 1], keep=false}} : f64[]
"""
OWN = {
    "quotient": LOSSES + SUM + COUNT +
    "  %loss = div(%sum, %count) : f64[]\n",
    "guarded": LOSSES + SUM + COUNT +
    "  %one = constant() {{value=f64[](1)}} : f64[]\n"
    "  %terms = max(%count, %one) : f64[]\n"
    "  %loss = div(%sum, %terms) : f64[]\n",
    "sum": LOSSES + SUM + "  %loss = neg(%sum) : f64[]\n",
    "mean": LOSSES + MEAN +
    "  %squares = reduce_sum_square(%head) {{dims=[0, 1], keep=false}} : f64[]\n"
    "  %loss = add(%mean, %squares) : f64[]\n",
}
BALANCE = """  %shares = reduce_mean(%x) {{dims=[0, 1], keep=false}} : f64[8]
  %products = mul(%shares, %shares) : f64[8]
  %balance = reduce_sum(%products) {{dims=[0], keep=false}} : f64[]
  %loss = add(%mean, %balance) : f64[]
"""


class OwnLosses(TrainTest):

  def model(self, loss, batch):
    text = MODEL.format(b=batch, loss=loss.format(b=batch))
    return self.path("model.asyra", text)

  def of_model(self, loss, batch, *flags):
    # The norm tells it of the gradients.
    rows = self.train(self.model(loss, batch), *QUICK, "--no-shuffle",
                      "--optimizer", "sgd", *flags, steps=3)
    return [float(number) for row in rows for number in row[1:3]]

  def test_batches_that_are_added_up_are_one_large_batch(self):
    for name, loss in OWN.items():
      with self.subTest(name):
        large = self.of_model(loss, 8)
        for flags in [[], ["--dp", "2"]]:
          self.assert_close(
              self.of_model(loss, 4, "--accumulate", "2", *flags), large)
        self.assert_close(self.of_model(loss, 2, "--accumulate", "4"), large)

  def test_losses_of_which_batches_do_not_give_the_whole_are_refused(self):
    loss = LOSSES + MEAN + BALANCE
    self.of_model(loss, 4)
    self.refused("the loss %loss of several batches does not follow from the "
                 "losses of each", self.model(loss, 4), "--accumulate", "2",
                 "--data", self.text, "--steps", "1", "--rate", "1")

  def test_evaluation_weighs_batches_by_their_labels(self):
    said = {}
    for batch, batches in [(8, 1), (2, 4)]:
      text = self.passes(
          "asyra-train", self.model(OWN["quotient"], batch), *QUICK, "--data",
          self.text, "--steps", "1", "--rate", "1e-9", "--evaluate-every", "1",
          "--evaluate-data", self.text, "--evaluate-batches", str(batches))
      said[batch] = [line for line in text.splitlines() if "evaluation" in line]
      self.assertEqual(len(said[batch]), 1)
    self.assertEqual(said[8], said[2])

  def test_steps_and_evaluations_need_labels_that_count(self):
    spaces = self.path("spaces", " " * 4000)
    model = self.model(OWN["quotient"], 4)
    args = [model, *QUICK, "--rate", "0.01"]
    self.refused("step 1: no label counts, there is no loss; the step changed "
                 "nothing", *args, "--data", spaces, "--steps", "2")
    self.refused("evaluation after step 1: no label counts in its 2 batches",
                 *args, "--data", self.text, "--steps", "2",
                 "--evaluate-every", "1", "--evaluate-data", spaces,
                 "--evaluate-batches", "2")
    text = self.passes("asyra-train", *args, "--data", spaces, "--steps", "2",
                       "--skip-not-finite")
    self.assertIn("no label counts: nothing was changed", text)

  def test_a_model_that_shifts_labels_is_given_tokens(self):
    loss = """  %rows = slice(%y) {{dim=1, start=0, stop=7}} : f64[{b}, 7, 256]
  %next = slice(%labels) {{dim=1, start=FIRST, stop=LAST}} : i64[{b}, 7]
  %losses = cross_entropy(%rows, %next) : f64[{b}, 7]
  %loss = reduce_mean(%losses) {{dims=[0, 1], keep=false}} : f64[]
"""
    shifts = loss.replace("FIRST", "1").replace("LAST", "8")
    takes = loss.replace("FIRST", "0").replace("LAST", "7")
    expected = self.of_model(takes, 4)
    for flags in [[], ["--dp", "2"], ["--sp", "2"]]:
      self.assert_close(self.of_model(shifts, 4, *flags), expected)
    args = ["--data", self.text, "--steps", "1", "--rate", "0.01"]
    note = "its labels are the tokens"
    for own, has_note in [(shifts, True), (takes, False)]:
      text = self.passes("asyra-train", self.model(own, 4), *QUICK, *args)
      self.assertEqual(note in text, has_note)


# Programs are shortened from a few layers on: these are long enough.
DEEP = ["--dim", "layers=8", "--dim", "seq=16", "--dim", "vocabulary=128"]


class DeepModels(TrainTest):

  def losses_of(self, model, batch, *flags):
    rows = self.train(model, *DEEP, "--dim", f"batch={batch}", "--dtype", "f64",
                      "--no-shuffle", *flags, steps=2)
    return [float(row[1]) for row in rows]

  def test_batches_of_deep_models_are_added_up(self):
    for model, flags in [("llama3-tiny", ["--tp", "2"]),
                         ("gpt3-tiny", ["--dp", "2"])]:
      with self.subTest(model):
        self.assert_close(
            self.losses_of(model, 4, "--accumulate", "2", "--search-steps",
                           "10", *flags), self.losses_of(model, 8, *QUICK))

  def test_deep_steps_compile(self):
    for flags in [["--sp", "2", "--accumulate", "2"],
                  ["--dp", "2", "--zero", "3", "--accumulate", "2"],
                  ["--tp", "2", "--recompute", "all", "--accumulate", "2"]]:
      with self.subTest(flags):
        self.passes("asyra-opt", "llama3-tiny", *DEEP, "--dim", "batch=4",
                    "--train", "--search-steps", "2", *flags)


if __name__ == "__main__":
  unittest.main(argv=sys.argv[:1] + sys.argv[3:])
