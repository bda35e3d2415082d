"""Evaluates the small part of Python that schedules are written in: whole
numbers, names, loops over ranges, conditions, and calls that the reader gives.
Nothing is imported or run.
"""

import ast
import re
import warnings

from plan_import.refusal import Refusal

MOST_STEPS = 1 << 20

BINARY = {ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b,
          ast.Mult: lambda a, b: a * b, ast.FloorDiv: lambda a, b: a // b,
          ast.Mod: lambda a, b: a % b, ast.BitXor: lambda a, b: a ^ b,
          ast.LShift: lambda a, b: a << min(b, 64),
          ast.RShift: lambda a, b: a >> b}
COMPARE = {ast.Eq: lambda a, b: a == b, ast.NotEq: lambda a, b: a != b,
           ast.Lt: lambda a, b: a < b, ast.LtE: lambda a, b: a <= b,
           ast.Gt: lambda a, b: a > b, ast.GtE: lambda a, b: a >= b}


class Opaque:
  """A value that a plan does not need: sizes, types."""

  def __init__(self, name):
    self.name = name

  def __repr__(self):
    return self.name


class Flow(Exception):
  """Leaves a loop or a function."""

  def __init__(self, kind, value=None):
    super().__init__(kind)
    self.kind, self.value = kind, value


def parse(text):
  """The functions of a file by name. `...` among arguments, which a printed
  listing has, stands for nothing."""
  text = re.sub(r",\s*\.\.\.\s*(?=\))", "", text)
  try:
    with warnings.catch_warnings():
      warnings.simplefilter("error", SyntaxWarning)
      tree = ast.parse(text)
  except SyntaxError as error:
    raise Refusal(f"line {error.lineno}: no Python: {error.msg}") from None
  except (ValueError, RecursionError, MemoryError) as error:
    raise Refusal(f"no Python: {error}") from None
  functions = {}
  for node in tree.body:
    if isinstance(node, ast.FunctionDef):
      functions[node.name] = node
    elif not isinstance(node, (ast.Import, ast.ImportFrom)) and not is_text(
        node):
      raise Refusal(f"line {node.lineno}: {said(node)}: outside of functions "
                    "there are only imports")
  return functions


def is_text(node):
  return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def said(node):
  return ast.unparse(node).splitlines()[0]


class Evaluator:
  """Calls a function of the file. `names` are what it may use beside its own;
  callables among them take (node, positional, keywords)."""

  def __init__(self, names):
    self.names, self.steps = names, 0

  def call(self, function, arguments):
    local = dict(self.names)
    taken = function.args
    if taken.vararg or taken.kwarg or function.decorator_list:
      self.refuse(function, "takes what is not known")
    listed = taken.posonlyargs + taken.args + taken.kwonlyargs
    defaults = dict(zip([a.arg for a in (taken.posonlyargs + taken.args)[::-1]],
                        taken.defaults[::-1]))
    defaults.update({a.arg: d for a, d in
                     zip(taken.kwonlyargs, taken.kw_defaults) if d})
    for argument in listed:
      name = argument.arg
      if name in arguments:
        local[name] = arguments[name]
      elif name in defaults:
        local[name] = self.value(defaults[name], local)
      else:
        local[name] = Opaque(name)
    try:
      self.block(function.body, local)
    except Flow as flow:
      if flow.kind == "return":
        return flow.value
      self.refuse(function, f"{flow.kind} outside of a loop")
    return None

  @staticmethod
  def refuse(node, why):
    raise Refusal(f"line {node.lineno}: {said(node)}: {why}")

  def _count(self, node):
    self.steps += 1
    if self.steps > MOST_STEPS:
      self.refuse(node, f"more than {MOST_STEPS} steps")

  def block(self, statements, local):
    for node in statements:
      self._count(node)
      handler = getattr(self, "_" + type(node).__name__, None)
      if handler is None:
        self.refuse(node, "no statement of a schedule")
      handler(node, local)

  def _Pass(self, node, local):
    pass

  def _Continue(self, node, local):
    raise Flow("continue")

  def _Break(self, node, local):
    raise Flow("break")

  def _Return(self, node, local):
    raise Flow("return", None if node.value is None
               else self.value(node.value, local))

  def _Expr(self, node, local):
    if not is_text(node):
      self.value(node.value, local)

  def _Assign(self, node, local):
    value = self.value(node.value, local)
    for target in node.targets:
      if isinstance(target, ast.Name):
        local[target.id] = value
      elif isinstance(target, ast.Subscript):
        owner = self.value(target.value, local)
        if not isinstance(owner, dict):
          self.refuse(node, "assigns to no table")
        try:
          owner[self.value(target.slice, local)] = value
        except TypeError as error:
          self.refuse(node, str(error))
      else:
        self.refuse(node, "assigns to no name")

  def _AugAssign(self, node, local):
    if not isinstance(node.target, ast.Name):
      self.refuse(node, "assigns to no name")
    local[node.target.id] = self._binary(
        node, type(node.op), self.value(node.target, local),
        self.value(node.value, local))

  def _If(self, node, local):
    self.block(node.body if self.value(node.test, local) else node.orelse,
               local)

  def _For(self, node, local):
    if node.orelse or not isinstance(node.target, ast.Name):
      self.refuse(node, "no loop of a schedule")
    values = self.value(node.iter, local)
    if not isinstance(values, (range, list, tuple)):
      self.refuse(node, "loops over no range")
    for value in values:
      self._count(node)
      local[node.target.id] = value
      try:
        self.block(node.body, local)
      except Flow as flow:
        if flow.kind == "break":
          break
        if flow.kind != "continue":
          raise

  # Expressions -------------------------------------------------------------

  def value(self, node, local):
    if isinstance(node, ast.Constant):
      return node.value
    if isinstance(node, ast.Name):
      if node.id not in local:
        self.refuse(node, "is not known")
      return local[node.id]
    if isinstance(node, (ast.Tuple, ast.List)):
      values = [self.value(item, local) for item in node.elts]
      return values if isinstance(node, ast.List) else tuple(values)
    if isinstance(node, ast.BinOp):
      return self._binary(node, type(node.op), self.value(node.left, local),
                          self.value(node.right, local))
    if isinstance(node, ast.UnaryOp):
      return self._unary(node, self.value(node.operand, local))
    if isinstance(node, ast.BoolOp):
      every = isinstance(node.op, ast.And)
      for item in node.values:
        value = self.value(item, local)
        if bool(value) != every:
          break
      return value
    if isinstance(node, ast.Compare):
      return self._compare(node, local)
    if isinstance(node, ast.IfExp):
      return self.value(node.body if self.value(node.test, local)
                        else node.orelse, local)
    if isinstance(node, ast.Attribute):
      return self._attribute(node, self.value(node.value, local))
    if isinstance(node, ast.Call):
      return self._call(node, local)
    return self.refuse(node, "no expression of a schedule")

  def _binary(self, node, kind, left, right):
    for value in (left, right):
      if not isinstance(value, int) or abs(value) > 1 << 62:
        self.refuse(node, f"{value!r} is no whole number")
    if kind not in BINARY:
      self.refuse(node, "no operation of a schedule")
    try:
      return BINARY[kind](left, right)
    except (ArithmeticError, ValueError) as error:
      return self.refuse(node, str(error))

  def _unary(self, node, value):
    if isinstance(node.op, ast.Not):
      return not value
    if isinstance(node.op, ast.USub) and isinstance(value, int):
      return -value
    return self.refuse(node, "no operation of a schedule")

  def _compare(self, node, local):
    left = self.value(node.left, local)
    for kind, item in zip(node.ops, node.comparators):
      right = self.value(item, local)
      if type(kind) not in COMPARE:
        self.refuse(node, "no comparison of a schedule")
      try:
        if not COMPARE[type(kind)](left, right):
          return False
      except TypeError as error:
        self.refuse(node, str(error))
      left = right
    return True

  def _attribute(self, node, owner):
    found = getattr(owner, "attributes", {}).get(node.attr)
    if found is None and isinstance(owner, dict) and node.attr == "setdefault":
      return lambda n, args, _: owner.setdefault(*args)
    if found is None and isinstance(owner, list) and node.attr == "append":
      return lambda n, args, _: owner.append(*args)
    if found is None:
      self.refuse(node, "is not known")
    return found

  def _call(self, node, local):
    called = self.value(node.func, local)
    if not callable(called):
      self.refuse(node, "calls what is not known")
    if any(isinstance(a, ast.Starred) for a in node.args) or any(
        k.arg is None for k in node.keywords):
      self.refuse(node, "has a starred argument")
    args = [self.value(a, local) for a in node.args]
    keywords = {k.arg: self.value(k.value, local) for k in node.keywords}
    try:
      return called(node, args, keywords)
    except (TypeError, ValueError) as error:
      return self.refuse(node, str(error))
