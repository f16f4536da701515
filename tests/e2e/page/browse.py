"""The job's page in a real browser: browse.py DDPRUN WORKER FOLDER. Writes screenshots into FOLDER; exits with 0 if all is well.

WORKER is hang_worker, which reports its steps. Exits with 77 and a sentence where there is no browser."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from free_port import free_port

LIMIT = 60
ENDED_BY = r"was killed by SIGSEGV|\bcrash\b"
DDPRUN, WORKER, FOLDER = sys.argv[1:4]


def skip(why):
    print("skipped: " + why)
    sys.exit(77)


try:
    from selenium import webdriver
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver.common.by import By
except ImportError:
    skip("no selenium in .venv (scripts/setup.sh --test)")
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
if not CHROMIUM or not DRIVER:
    skip("no chromium and chromedriver, of Debian's packages chromium and chromium-driver")


def eventually(what, holds):
    end = time.monotonic() + LIMIT
    while True:
        value = holds()
        if value:
            return value
        assert time.monotonic() < end, "never: " + what
        time.sleep(0.05)


class Job:
    def __init__(self, name, *options, steps="100000", log=None):
        self.err = open(os.path.join(FOLDER, (log or name) + ".err"), "w+")
        self.process = subprocess.Popen([DDPRUN, "--nproc-per-node=3", "--rdzv-id=" + name, *options, "--page", "--no-python", WORKER, steps],
                                        stdout=subprocess.DEVNULL, stderr=self.err, cwd=FOLDER, env={**os.environ, "LOGLEVEL": "INFO", "OUTLOOK": "1"})
        self.found_port = None

    @property
    def port(self):
        if not self.found_port:
            found = eventually("the port", lambda: re.search("page: http://localhost:([0-9]+)/", self.said()))
            self.found_port = int(found[1])
        return self.found_port

    def said(self):
        with open(self.err.name) as said:
            return said.read()

    def url(self, path=""):
        return f"http://localhost:{self.port}/{path}"

    def status(self):
        with urllib.request.urlopen(self.url("status"), timeout=LIMIT) as answer:
            return json.load(answer)

    def kill_rank(self, rank):
        def pid():
            found = [one["pid"] for one in self.status()["ranks"] if one["rank"] == rank and one["step"]]
            return found and found[0]
        os.kill(eventually(f"rank {rank} runs", pid), signal.SIGSEGV)

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(LIMIT)


class Browser:
    def __init__(self):
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars"):
            options.add_argument(word)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
        self.errors, self.requests = [], []

    def text(self, element):
        return self.driver.execute_script("return document.getElementById(arguments[0]).textContent", element).replace("\u00a0", " ")

    def events(self):
        return int(self.driver.execute_script("return document.documentElement.dataset.events || 0"))

    def look(self):
        for entry in self.driver.get_log("browser"):
            if entry["level"] == "SEVERE":
                self.errors.append(entry["message"])
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"]["url"])

    def pictures(self, name):
        """At both widths, in both colours; nothing may need scrolling to the side."""
        for scheme in ("light", "dark"):
            self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
            for width in (400, 1280):
                self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})
                wide = self.driver.execute_script("return document.documentElement.scrollWidth")
                assert wide <= width, f"{name} is {wide} px wide at {width} px"
                high = self.driver.execute_script("return document.documentElement.scrollHeight")
                self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                            {"width": width, "height": high, "deviceScaleFactor": 1, "mobile": False})
                self.driver.save_screenshot(os.path.join(FOLDER, f"{name}-{width}-{scheme}.png"))
        self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def show_and_kill(browser):
    """It shows the job, and within seconds that a rank was killed; afterwards that the agent is gone, and that it is back."""
    job = Job("shown", "--metrics=0", "--max-restarts=5", "--event-log-handler=file:events.jsonl")
    browser.driver.get(job.url())
    eventually("the job's name", lambda: browser.text("job") == "shown")
    eventually("a step", lambda: re.search("step [1-9]", browser.text("state")))
    eventually("what is left", lambda: re.search(r"step [\d,]+ of 100,000 · [\d.]+ % · \d+ (min|h \d+ min) left", browser.text("state")))
    eventually("the loss", lambda: "Loss0.5000" in browser.text("now"))
    eventually("three events", lambda: browser.events() >= 3)
    job.kill_rank(1)
    killed, events = time.monotonic(), browser.events()
    eventually("the crash", lambda: re.search(ENDED_BY, browser.text("rounds")))
    print(f"a crash was shown after {time.monotonic() - killed:.2f} s and {browser.events() - events} events")
    eventually("the second round", lambda: "round 2" in browser.text("about"))
    eventually("its restarts", lambda: "1 of 5 (1 crash)" in browser.text("now"))
    eventually("curves", lambda: browser.driver.find_elements(By.CSS_SELECTOR, "#pace .curve"))
    assert len(browser.driver.find_elements(By.CSS_SELECTOR, "#ranks tbody tr")) == 3
    browser.look()
    assert not browser.errors, browser.errors
    browser.pictures("page")
    port = job.port
    before = browser.events()
    job.process.kill()
    eventually("that the agent is gone", lambda: re.search(r"The agent is gone.*values are of \d\d:\d\d:\d\d", browser.text("contact")))
    job.process.wait(LIMIT)
    eventually("the port is free", lambda: port_is_free(port))
    again = Job("again", f"--metrics={port}", "--max-restarts=5")
    eventually("the new job", lambda: browser.text("job") == "again" and browser.events() > before)
    assert browser.driver.find_element(By.ID, "contact").get_property("hidden")
    again.end()
    eventually("the end", lambda: re.match("The job has ended|ended|stopped|failed", browser.text("state")))


def port_is_free(port):
    import socket
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            return True
        except OSError:
            return False


def show_with_token(browser):
    token = subprocess.run([DDPRUN, "--make-token"], check=True, capture_output=True, text=True).stdout.strip()
    with open(os.open(os.path.join(FOLDER, "token"), os.O_CREAT | os.O_WRONLY, 0o600), "w") as out:
        out.write(token + "\n")
    job = Job("guarded", "--metrics=0", "--metrics-token-file=token")
    browser.driver.get(job.url())
    eventually("the form", lambda: browser.driver.find_element(By.ID, "token").is_displayed())
    assert "guarded" not in browser.driver.page_source
    for secret, then in (("0" * 64, lambda: "not the job's" in browser.text("asked")), (token, lambda: browser.text("job") == "guarded")):
        eventually("the form", lambda: browser.driver.find_element(By.ID, "token").is_displayed())
        browser.driver.find_element(By.ID, "token").send_keys(secret)
        browser.driver.find_element(By.CSS_SELECTOR, "#ask button").click()
        eventually("an answer to the token", then)
    assert not browser.driver.find_element(By.ID, "token").is_displayed()
    assert browser.driver.execute_script("return localStorage.length + document.cookie.length") == 0
    browser.look()
    browser.driver.get("about:blank")
    job.end()


def show_nodes(browser):
    """Of all three nodes, also when one of those that do not serve the page is lost."""
    endpoint = f"--rdzv-endpoint=localhost:{free_port()}"
    nodes = [Job("nodes", "--metrics=0", "--nnodes=2:3", "--rdzv-backend=c10d", endpoint, f"--node-rank={node}", log=f"node{node}")
             for node in range(3)]
    browser.driver.get(nodes[0].url())

    def rows():
        return len(browser.driver.find_elements(By.CSS_SELECTOR, "#ranks tbody tr"))

    eventually("all ranks", lambda: rows() == 9)
    eventually("all nodes", lambda: "9 ranks on 3 nodes" in browser.text("about"))
    nodes[2].process.kill()
    eventually("the lost node", lambda: "1 lost node" in browser.text("now") and rows() == 6)
    browser.look()
    browser.driver.get("about:blank")
    for node in nodes:
        node.end()


def show_report(browser):
    """Of the first job, whose agent was killed, as a file."""
    subprocess.run([DDPRUN, "report", os.path.join(FOLDER, "events.jsonl"), "-o", os.path.join(FOLDER, "report.html")], check=True)
    browser.driver.get("file://" + os.path.join(FOLDER, "report.html"))
    eventually("the report", lambda: browser.text("job") == "shown")
    assert re.search(ENDED_BY, browser.text("rounds"))
    assert "productive" in browser.text("time")
    browser.pictures("report")


browser = Browser()
try:
    show_and_kill(browser)
    browser.look()
    browser.errors = [one for one in browser.errors if "ERR_CONNECTION_REFUSED" not in one and "ERR_INCOMPLETE_CHUNKED" not in one]
    show_with_token(browser)
    browser.look()
    browser.errors = [one for one in browser.errors if "401" not in one and "ERR_CONNECTION_REFUSED" not in one]
    show_nodes(browser)
    browser.look()
    if len(sys.argv) < 5 or sys.argv[4] != "no-report":
        show_report(browser)
    browser.look()
    assert not browser.errors, browser.errors
    outside = [url for url in browser.requests if not re.match(r"(http://localhost:\d+/|file:///|data:|about:blank)", url)]
    assert not outside, outside
finally:
    browser.driver.quit()
