"""Reads the elements of an algorithm of MSCCL, checked each by itself."""

import dataclasses
from xml.parsers import expat

from plan_import.refusal import Refusal

# Attributes of each element: the required ones, then others.
ATTRIBUTES = {
    "algo": (("name", "proto", "nchannels", "nchunksperloop", "ngpus", "coll",
              "inplace"),
             ("outofplace", "minBytes", "maxBytes", "nthreads", "redop")),
    "gpu": (("id", "i_chunks", "o_chunks", "s_chunks"), ()),
    "tb": (("id", "send", "recv", "chan"), ()),
    "step": (("s", "type", "srcbuf", "srcoff", "dstbuf", "dstoff", "cnt",
              "depid", "deps", "hasdep"), ()),
}
PARENT = {"algo": None, "gpu": "algo", "tb": "gpu", "step": "tb"}
TEXTS = ("name", "proto", "coll", "redop", "type", "srcbuf", "dstbuf")
PROTOCOLS = ("Simple", "LL", "LL128")
TYPES = ("s", "r", "rcs", "rrs", "rrc", "rrcs", "cpy", "re", "nop")
SENDS = ("s", "rcs", "rrs", "rrcs")
RECEIVES = ("r", "rcs", "rrs", "rrc", "rrcs")
COLLECTIVES = {"allgather": "all_gather", "reduce_scatter": "reduce_scatter",
               "allreduce": "all_reduce", "alltoall": "all_to_all"}
MOST_STEPS = 1 << 16
MOST_CHUNKS = 1 << 18  # of all GPUs
MOST_QUEUES = 15       # beside the one that computes


@dataclasses.dataclass(eq=False)
class Element:
  tag: str
  line: int
  values: dict
  children: list
  name: str = ""

  def refuse(self, why):
    raise Refusal(f"line {self.line}: {self.name}: {why}")


def parse(text):
  """The element algo; children are sorted by their number."""
  parser = expat.ParserCreate()
  stack, roots = [], []

  def begin(tag, attributes):
    line = parser.CurrentLineNumber
    if tag not in ATTRIBUTES:
      raise Refusal(f"line {line}: element {tag} is unknown, there are "
                    + ", ".join(ATTRIBUTES))
    parent = stack[-1].tag if stack else None
    if parent != PARENT[tag]:
      raise Refusal(f"line {line}: {tag} is in {parent or 'no element'}, it "
                    f"belongs in {PARENT[tag] or 'none'}")
    element = Element(tag, line, values_of(tag, attributes, line), [])
    (stack[-1].children if stack else roots).append(element)
    stack.append(element)

  def end(_):
    stack.pop()

  def content(data):
    if data.strip():
      raise Refusal(f"line {parser.CurrentLineNumber}: text between elements: "
                    f"{data.strip()}")

  def doctype(*_):
    raise Refusal(f"line {parser.CurrentLineNumber}: a document type")

  parser.StartElementHandler, parser.EndElementHandler = begin, end
  parser.CharacterDataHandler = content
  parser.StartDoctypeDeclHandler = doctype
  try:
    parser.Parse(text, True)
  except expat.ExpatError as error:
    raise Refusal(f"line {error.lineno}: no XML: "
                  f"{expat.ErrorString(error.code)}") from None
  name_elements(roots[0])
  check_algorithm(roots[0])
  return roots[0]


def values_of(tag, attributes, line):
  required, others = ATTRIBUTES[tag]
  for name in required:
    if name not in attributes:
      raise Refusal(f"line {line}: {tag} has no {name}")
  values = {}
  for name, value in attributes.items():
    if name not in required + others:
      raise Refusal(f"line {line}: {tag} has {name}=\"{value}\", which is "
                    "unknown")
    if name not in TEXTS:
      try:
        value = int(value)
      except ValueError:
        raise Refusal(f"line {line}: {tag} has {name}=\"{value}\", no "
                      "integer") from None
    values[name] = value
  return values


def name_elements(algo):
  algo.name = "algo"
  for gpu in algo.children:
    gpu.name = f"gpu {gpu.values['id']}"
    for tb in gpu.children:
      tb.name = f"{gpu.name}, tb {tb.values['id']}"
      for step in tb.children:
        step.name = f"{tb.name}, step {step.values['s']}"


def check_numbers(parent, key):
  """Children are numbered from 0, each once, and sorted by that."""
  parent.children.sort(key=lambda child: child.values[key])
  for number, child in enumerate(parent.children):
    if child.values[key] != number:
      child.refuse(f"{key} is {child.values[key]}, the next one would be "
                   f"{number}")


def check_algorithm(algo):
  values = algo.values
  if values["coll"] not in COLLECTIVES:
    algo.refuse(f"coll is {values['coll']}, plans are of "
                + ", ".join(COLLECTIVES))
  if values["proto"] not in PROTOCOLS:
    algo.refuse(f"proto is {values['proto']}, known are "
                + ", ".join(PROTOCOLS))
  if values.get("redop", "sum") != "sum":
    algo.refuse(f"redop is {values['redop']}, a plan adds")
  if values["inplace"] not in (0, 1):
    algo.refuse(f"inplace is {values['inplace']}, it is 0 or 1")
  check_numbers(algo, "id")
  if len(algo.children) != values["ngpus"]:
    algo.refuse(f"ngpus is {values['ngpus']}, there are {len(algo.children)}")
  if not 2 <= values["ngpus"] <= 64:
    algo.refuse(f"ngpus is {values['ngpus']}, a plan has from 2 to 64 ranks")
  if sum(len(t.children) for g in algo.children for t in g.children) > (
      MOST_STEPS):
    algo.refuse(f"there are more than {MOST_STEPS} steps")
  check_chunks(algo)
  for gpu in algo.children:
    check_numbers(gpu, "id")
    for tb in gpu.children:
      check_block(algo, gpu, tb)
    copying = sum(any(step.values["type"] in (*SENDS, "cpy")
                      for step in tb.children) for tb in gpu.children)
    if copying > MOST_QUEUES:
      gpu.refuse(f"{copying} thread blocks send or copy, a plan has "
                 f"{MOST_QUEUES} queues for that")


def check_chunks(algo):
  """The counts of chunks fit the collective."""
  ranks, chunks = algo.values["ngpus"], algo.values["nchunksperloop"]
  coll = algo.values["coll"]
  if chunks < 1 or (coll != "allreduce" and chunks % ranks != 0):
    algo.refuse(f"nchunksperloop is {chunks}, {coll} of {ranks} gpus has a "
                f"multiple of {1 if coll == 'allreduce' else ranks}")
  if chunks * ranks > MOST_CHUNKS:
    algo.refuse(f"nchunksperloop is {chunks}, at most {MOST_CHUNKS // ranks} "
                f"of {ranks} gpus")
  for gpu in algo.children:
    for key, shards in (("i_chunks", coll == "allgather"),
                        ("o_chunks", coll == "reduce_scatter")):
      want = chunks // ranks if shards else chunks
      if gpu.values[key] not in (0, want):
        gpu.refuse(f"{key} is {gpu.values[key]}, {coll} with nchunksperloop "
                   f"{chunks} has {want}")
    if gpu.values["s_chunks"] < 0:
      gpu.refuse(f"s_chunks is {gpu.values['s_chunks']}")


def check_block(algo, gpu, tb):
  ranks = algo.values["ngpus"]
  for key in ("send", "recv"):
    peer = tb.values[key]
    if not -1 <= peer < ranks:
      tb.refuse(f"{key} is {peer}, there are gpus 0 to {ranks - 1}")
    if peer == gpu.values["id"]:
      tb.refuse(f"{key} is {peer}, the gpu itself")
  if not 0 <= tb.values["chan"] < algo.values["nchannels"]:
    tb.refuse(f"chan is {tb.values['chan']}, nchannels is "
              f"{algo.values['nchannels']}")
  check_numbers(tb, "s")
  for step in tb.children:
    check_step(tb, step)


def check_step(tb, step):
  values = step.values
  if values["type"] not in TYPES:
    step.refuse(f"type is {values['type']}, a plan says " + ", ".join(TYPES))
  for kinds, key in ((SENDS, "send"), (RECEIVES, "recv")):
    if values["type"] in kinds and tb.values[key] < 0:
      step.refuse(f"type is {values['type']}, and the tb has no {key}")
  for key in ("srcbuf", "dstbuf"):
    if values[key] not in ("i", "o", "s"):
      step.refuse(f"{key} is {values[key]}, there are i, o and s")
  if values["type"] != "nop" and values["cnt"] < 1:
    step.refuse(f"cnt is {values['cnt']}, it moves at least 1")
  if values["hasdep"] not in (0, 1):
    step.refuse(f"hasdep is {values['hasdep']}, it is 0 or 1")
