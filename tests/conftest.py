"""What all tests rely on."""

import gc
import signal
import sys

import pytest
from hypothesis import settings

# A first call may compile, so there is no deadline.
settings.register_profile("tests", deadline=None, max_examples=25)
settings.load_profile("tests")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish():
    """Spare the garbage collector the modules and tests, a million objects that all stay."""
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c_is_heard():
    """A shell starts background jobs with SIGINT ignored, and they leave it so to their
    children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def _figures_are_closed():
    """Close what a test drew, since pyplot keeps all figures of a process and warns of the 21st."""
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")


@pytest.fixture(scope="session")
def originals(tmp_path_factory):
    """A small saved model of each kind of file, fitted when a test first asks for it."""
    from tests.helpers.damaged_files.outcomes import Originals

    return Originals(tmp_path_factory.mktemp("originals"))


@pytest.fixture
def reloaded(tmp_path):
    """A face as its file gives it back."""

    def through_a_file(face):
        face.save(tmp_path / "model")
        return type(face).load(tmp_path / "model")

    return through_a_file
