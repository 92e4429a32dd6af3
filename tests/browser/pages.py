"""Opens reports in headless Chromium, through Debian's chromium-driver and python3-selenium.

    with pages.browser() as page:
        page.open(pathlib.Path("build/demo/report.html"), width=1280, scheme="dark")
        page.script("return document.title")

The module also makes the reports that tests look at, each once per process, with the program in SHARDLAB_BINARY. A
test that cannot run says why in one line and exits with SKIPPED, which CTest shows as skipped.
"""

import atexit
import base64
import contextlib
import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
LONGEST_S = 30  # how long a page may take to draw on a busy machine
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")


def skip(reason: str) -> None:
    """Ends the test as skipped."""
    print(f"skipped: {reason}", file=sys.stderr)
    sys.exit(SKIPPED)


def require_browser() -> None:
    """Skips the test if there is no browser to drive."""
    if CHROMIUM is None or DRIVER is None:
        skip("no chromium or no chromedriver here; scripts/setup installs both")
    try:
        import selenium  # noqa: F401  pylint: disable=import-outside-toplevel,unused-import
    except ImportError:
        skip("this Python has no selenium; scripts/setup installs python3-selenium")


class Page:
    """One window. Its height is that of a screen; the page scrolls."""

    def __init__(self, driver):
        self.driver = driver

    def emulate(self, width: int = 1280, height: int = 900, scheme: str = "light", media: str = "screen") -> None:
        """Sets the size of the window, the preferred colours, and screen or print."""
        self._command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self._command("Emulation.setEmulatedMedia", media=media,
                      features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, path: pathlib.Path, **emulation) -> float:
        """Opens a file and returns the seconds until everything is drawn. Earlier console messages are dropped."""
        self.emulate(**emulation)
        self.driver.get("about:blank")  # otherwise the previous page may answer for this one
        self.driver.get_log("browser")
        start = time.perf_counter()
        self.driver.get(path.resolve().as_uri())
        while self.script("return document.documentElement.dataset.ready") != "true":
            if time.perf_counter() - start > LONGEST_S:
                raise AssertionError(f"{path}: the script did not reach its end: {self.complaints()}")
            time.sleep(0.01)
        return time.perf_counter() - start

    def script(self, code: str, *arguments):
        """Runs JavaScript in the page."""
        return self.driver.execute_script(code, *arguments)

    def complaints(self) -> list[str]:
        """What the console has said since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def settle(self) -> None:
        """Waits until what was changed is painted."""
        self.driver.execute_async_script("const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done));")

    def screenshot(self, clip: dict | None = None) -> bytes:
        """The window, or a rectangle of the page, as PNG."""
        arguments = {"format": "png"}
        if clip is not None:
            arguments |= {"clip": clip | {"scale": 1}, "captureBeyondViewport": True}
        return base64.b64decode(self._command("Page.captureScreenshot", **arguments)["data"])

    def pdf(self) -> bytes:
        """The page as it prints."""
        return base64.b64decode(self._command("Page.printToPDF", printBackground=True)["data"])

    def _command(self, name: str, **arguments):
        return self.driver.execute_cdp_cmd(name, arguments)


@contextlib.contextmanager
def browser():
    """A headless browser without a profile of its own."""
    from selenium import webdriver  # pylint: disable=import-outside-toplevel
    from selenium.webdriver.chrome.options import Options  # pylint: disable=import-outside-toplevel
    from selenium.webdriver.chrome.service import Service  # pylint: disable=import-outside-toplevel

    options = Options()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                     "--force-device-scale-factor=1"):
        options.add_argument(argument)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")  # root cannot have the sandbox
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(service=Service(DRIVER), options=options)
    try:
        driver.set_script_timeout(60)
        yield Page(driver)
    finally:
        driver.quit()


def program() -> str:
    """The binary under test."""
    binary = os.environ.get("SHARDLAB_BINARY")
    if not binary:
        skip("SHARDLAB_BINARY names no program; CTest sets it")
    return str(pathlib.Path(binary).resolve())


# Every command that writes a report, on small input: name of the report -> command line.
REPORTS = {
    "compare": ["compare", "--baseline", "dtensor-v3", "--candidate", "shardlab", "--suite", "ops-small"],
    "compare-measured": ["compare", "--baseline", "dtensor-v3", "--candidate", "shardlab", "--suite", "ops-small",
                         "--reference", "calibrated-h100"],
    "compare-several": ["compare", "--baseline", "dtensor-v3", "--candidate", "dtensor-v3-rp", "--candidate", "dtensor-v4",
                        "--suite", "llama3-8b-tp"],
    "compare-equal": ["compare", "--baseline", "dtensor-v3", "--candidate", "dtensor-2.13", "--suite", "ops-small"],
    "ties": ["ties", "--stack", "dtensor-v3", "--suite", "ops-small"],
    "solve": ["solve", "transformer-block", "--mesh", "4"],
    "solve-asked": ["solve", "mlp", "--mesh", "8", "--explain", "R", "--best", "3", "--then", "up=R", "--greedy",
                    "--sensitivity", "--budget-curve", "5"],
    "solve-recipes": ["solve", "transformer-block", "--mesh", "2x4", "--compare-recipes"],
    "simulate": ["simulate", "--mesh", "2x4", "--tensor", "f32[16,8]", "--from", "S(0)P", "--to", "RS(1)"],
    "simulate-slow": ["simulate", "--mesh", "2x8", "--tensor", "f32[1024,512]", "--from", "S(0)P", "--to", "RS(1)", "--stack",
                      "alpha-beta", "--straggler", "host:1:2"],
    "simulate-many": ["simulate", "--mesh", "dp=128,tp=8", "--tensor", "bf16[8192,8192]", "--from", "S(0)S(1)", "--to", "RR",
                      "--data", "off"],
    "plan": ["plan", "--mesh", "dp=2,tp=4", "--tensor", "bf16[8192,4096]", "--from", "S(0)S(0)", "--to", "RS(0)", "--stack",
             "dtensor-v3g", "--against", "dtensor-v3"],
    "plan-partial": ["plan", "--mesh", "2x4", "--tensor", "f32[1024,512]", "--from", "S(0)P", "--to", "RS(1)", "--stack",
                     "alpha-beta"],
    "plan-large": ["plan", "--mesh", "2x32x64", "--tensor", "bf16[8192,4096,64]", "--from", "RS(0)P", "--to", "S(1)RR"],
    "validate": ["validate", "--stack", "calibrated-h100"],
}


@functools.lru_cache(maxsize=None)
def folder() -> pathlib.Path:
    """The folder in which this process keeps its reports."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="shardlab-pages-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


@functools.lru_cache(maxsize=None)
def report(name: str) -> pathlib.Path:
    """The folder of one of REPORTS, made when first asked for."""
    out = folder() / name
    make_report(REPORTS[name], out)
    return out


def make_report(command: list[str], out: pathlib.Path, cwd: pathlib.Path | None = None) -> None:
    """Runs the program so that it writes a report into `out`."""
    subprocess.run([program(), *command, "--out", str(out.resolve()), "--quiet", "--no-timing"], check=True,
                   stdout=subprocess.DEVNULL, cwd=cwd)


def report_json(name: str) -> dict:
    """report.json of one of REPORTS."""
    return json.loads((report(name) / "report.json").read_text(encoding="utf-8"))
