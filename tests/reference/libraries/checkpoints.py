"""Loading a checkpoint with a library's own classes, or saying why not."""

import json
import os

import safetensors.torch
import torch


class Unsupported(Exception):
    """What the library does not have: one sentence, not an error."""


def has_full_norm(values):
    """Whether Mamba-2's norm is over all channels, as transformers before 5.23
    has it."""
    version = values.get("transformers_version", "5.23.0")
    old = [int(number) for number in version.split(".")[:2]] < [5, 23]
    return values.get("norm_scope", "full" if old else "group") == "full"


def decode_float(value):
    """transformers writes infinity as an object."""
    return float(value["__float__"]) if "__float__" in value else value


def read_config(folder):
    with open(os.path.join(folder, "config.json")) as file:
        return json.load(file, object_hook=decode_float)


def read_tensors(folder):
    """Tensors by name, in float32. The checkpoint is in one file."""
    path = os.path.join(folder, "model.safetensors")
    tensors = safetensors.torch.load_file(path)
    return {name: tensor.float() for name, tensor in tensors.items()}


def refuse_unknown_keys(values, config_class, inert=()):
    """The library would pass over such keys in silence, as it may `inert`."""
    known = config_class()
    unknown = sorted(key for key in values
                     if not hasattr(known, key) and key not in inert)
    if unknown:
        raise Unsupported("no key " + ", ".join(unknown))


def refuse_differences(missing, unexpected, mismatched):
    """Names of tensors that did not find each other while loading."""
    complaints = [
        what + " " + str(sorted(map(str, names))[0])
        for what, names in (("it has a tensor", missing),
                            ("it has no tensor", unexpected),
                            ("another shape of", mismatched)) if names]
    if complaints:
        raise Unsupported("; ".join(complaints))


def from_pretrained(folder, config_class, model_class, inert=(), foreign=()):
    """The model that the library itself makes of the folder, in float32.

    inert: keys of which it knows nothing and need not. foreign: what names of
    tensors begin with that the folder may lack.
    """
    refuse_unknown_keys(read_config(folder), config_class, inert)
    try:
        config = config_class.from_pretrained(folder)
        model, info = model_class.from_pretrained(
            folder, config=config, dtype=torch.float32,
            output_loading_info=True, ignore_mismatched_sizes=True)
    except (AssertionError, NotImplementedError, RuntimeError,
            ValueError) as error:
        raise Unsupported(str(error).splitlines()[0]) from error
    missing = [name for name in info["missing_keys"]
               if not name.startswith(foreign)]
    refuse_differences(missing, info["unexpected_keys"], info["mismatched_keys"])
    return model.eval()


def load_strictly(model, tensors):
    """Fills a model that the library cannot make from the folder itself."""
    try:
        missing, unexpected = model.load_state_dict(tensors, strict=False)
    except RuntimeError as error:  # shapes
        raise Unsupported(str(error).splitlines()[1].strip()) from error
    refuse_differences(missing, unexpected, [])
