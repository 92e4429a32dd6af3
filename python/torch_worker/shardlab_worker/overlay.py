"""What the user lays over PyTorch: another source of torch.distributed.tensor, and single files that are executed."""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys

from .errors import MissingFileError, OverlayError

PACKAGE = "torch.distributed.tensor"


class FreshSource(importlib.machinery.SourceFileLoader):
    """Compiles the source each time. No compiled file is written beside a user's source, and none that is there is
    trusted: one that was written in the same second as the edit would hide the edit."""

    def get_code(self, fullname):
        path = self.get_filename(fullname)
        try:
            return self.source_to_code(self.get_data(path), path)
        except (SyntaxError, ValueError) as error:  # Python does not name the file if a NUL is in it.
            if getattr(error, "filename", None):
                raise
            raise SyntaxError(str(error), (path, None, None, None)) from None


class Overlay(importlib.abc.MetaPathFinder):
    """Serves torch.distributed.tensor and its submodules from a folder. A module that the folder lacks is missing, as
    it would be in a PyTorch that was built from it."""

    def __init__(self, folder):
        self.folder = folder

    def find_spec(self, fullname, path=None, target=None):
        if fullname != PACKAGE and not fullname.startswith(PACKAGE + "."):
            return None
        stem = os.path.join(self.folder, *fullname[len(PACKAGE):].split(".")[1:])
        init = os.path.join(stem, "__init__.py")
        if os.path.isfile(init):
            return importlib.util.spec_from_file_location(
                fullname, init, loader=FreshSource(fullname, init), submodule_search_locations=[stem])
        if os.path.isfile(stem + ".py"):
            return importlib.util.spec_from_file_location(
                fullname, stem + ".py", loader=FreshSource(fullname, stem + ".py"))
        return None


def package_in(folder):
    """The folder of torch.distributed.tensor in a checkout, or the folder itself if it is that package."""
    folder = os.path.abspath(folder)
    if not os.path.isdir(folder):
        raise OverlayError(f"The overlay {folder} is not a folder.")
    for candidate in (os.path.join(folder, "torch", "distributed", "tensor"), folder):
        if all(os.path.isfile(os.path.join(candidate, name)) for name in ("__init__.py", "_sharding_prop.py")):
            return candidate
    raise OverlayError(f"The overlay {folder} is neither a PyTorch checkout (it has no torch/distributed/tensor) nor "
                       "that package itself (it has no _sharding_prop.py).")


def lay_over(folder, user_files):
    """Installs the overlay. This must happen before torch is imported."""
    package = package_in(folder)
    if PACKAGE in sys.modules:
        raise OverlayError("torch.distributed.tensor was imported before the overlay was in place.")
    user_files.set_overlay(package)
    sys.meta_path.insert(0, Overlay(package))
    return package


def execute(path, name, user_files):
    """Executes a file of the user's once, as a module of the given name, and returns the module. Modules that lie
    beside the file can be imported by it."""
    path = os.path.abspath(path)
    user_files.add_file(path)
    if not os.path.isfile(path):
        raise MissingFileError(f"There is no file {path}.")
    folder = os.path.dirname(path)
    if folder not in sys.path:
        sys.path.append(folder)
    spec = importlib.util.spec_from_file_location(name, path, loader=FreshSource(name, path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
