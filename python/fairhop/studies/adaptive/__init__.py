"""Adaptive control against the best fixed setting (`fairhop study adaptive`), which a search finds for each network.

`grid*` is a grid of strings, `changes` are networks that change, `worlds*` are networks drawn at random, `long_runs`
are these over many minutes, and `sensitivity` shows what each constant of the controller does in them. The results are
docs/validation/adaptive.md.
"""

#: How the study is called, and what it is about.
NAME = "adaptive"
ABOUT = "adaptive control against the best fixed setting of each network"
#: Its commands, for the list of studies.
COMMANDS = {
    "fairhop study adaptive": "a grid of strings: hops, calls, TCP flows, delays and TCP variants",
    "fairhop study adaptive worlds": "networks drawn at random: radio, topology, codecs, TCP, changes",
    "fairhop study adaptive long": "the same for many minutes: what decays or grows slowly",
    "fairhop study adaptive sensitivity": "what each constant of the controller does in drawn worlds",
}
