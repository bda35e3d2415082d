"""The corpus: cases and their runs in one archive, read without packages.

In the archive each case is a folder as case.py writes it, and `runs` of its
case.json lists the flags of its runs.
"""

import io
import json
import os
import tarfile

NAME = "corpus.tar.xz"


def folders(root):
  return sorted(os.path.join(root, name) for name in os.listdir(root))


def description(folder):
  with open(os.path.join(folder, "case.json"), encoding="utf-8") as file:
    return json.load(file)


def pack(root, path):
  """Archives the cases under `root`; the same cases give the same bytes."""
  with tarfile.open(path, "w:xz", preset=9) as archive:
    # Models beside models, data beside data: they compress better.
    files = [os.path.join(at, name) for at, _, names in os.walk(root)
             for name in names]
    files.sort(key=lambda file: (os.path.basename(file), file))
    for file in files:
      with open(file, "rb") as stream:
        data = stream.read()
      info = tarfile.TarInfo(os.path.relpath(file, root))
      info.size = len(data)
      archive.addfile(info, io.BytesIO(data))


def unpack(path, root):
  with tarfile.open(path) as archive:
    archive.extractall(root)
