"""The job's page at eight moments, in a real browser: moments_check.py FOLDER [--pictures]. Exits with 0 if all is well.

The page is put together by cmake/EmbedPage.cmake, as ddprun's, and has each moment of moments.py as its data. No job runs. FOLDER gets
the pages, and with --pictures what they look like at all widths. golden/ has two pictures of each moment; they are compared where the
browser and its fonts are those that drew them, and DDPRUN_UPDATE=1 draws them anew: look at them then.
Exits with 77 and a sentence where there is no browser."""
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = os.path.join(HERE, "../../..")
GOLDEN = os.path.join(HERE, "golden")
FOLDER, PICTURES = os.path.abspath(sys.argv[1]), "--pictures" in sys.argv
LIMIT = 30
WIDTHS = (400, 800, 1280, 1920)
KEPT = ((1280, "light"), (400, "dark"))  # as golden pictures
REPORT_BYTES_MAX = 200_000
GREY_APART, SHARE_APART = 16, 0.0002  # of 255, and of the pixels of a picture of a quarter of the size: a word is more


def skip(why):
    print("skipped: " + why)
    sys.exit(77)


try:
    import axe_core_python
    from PIL import Image, ImageChops
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError as error:
    skip(f"no {error.name} in .venv (scripts/setup.sh --test)")
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
if not CHROMIUM or not DRIVER:
    skip("no chromium and chromedriver, of Debian's packages chromium and chromium-driver")
sys.path.insert(0, HERE)
from moments import MOMENTS, moment

with open(os.path.join(os.path.dirname(axe_core_python.__file__), "axe.min.js")) as source:
    AXE = source.read()


def eventually(what, holds):
    end = time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < end, "never: " + what
        time.sleep(0.05)


def put_together():
    """The page without data, and the policy that it is sent with."""
    out = os.path.join(FOLDER, "page.cpp")
    subprocess.run(["cmake", f"-DFOLDER={SOURCES}/agent/http/page", f"-DOUTPUT={out}", "-P", f"{SOURCES}/cmake/EmbedPage.cmake"], check=True)
    with open(out) as made, open(out + ".html") as page:
        own = re.search(r'kOwnOnly = ((?:"[^"]*"\s*)+);', made.read())[1]
        return page.read(), "".join(re.findall(r'"([^"]*)"', own))


def with_data(page, policy, data):
    """As page_with() in page.cpp.in."""
    begin = '<script type="application/json" id="data">'
    page = page.replace(begin, begin + json.dumps(data).replace("<", "\\u003c"), 1)
    return page.replace("<title>", f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<title>', 1)


class Browser:
    def __init__(self):
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars", "--lang=en-GB",
                     "--font-render-hinting=none", "--disable-lcd-text", "--force-color-profile=srgb"):
            options.add_argument(word)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        service = webdriver.ChromeService(DRIVER, env={**os.environ, "TZ": "UTC", "LANGUAGE": "en"})
        self.driver = webdriver.Chrome(options=options, service=service)
        self.driver.set_script_timeout(LIMIT)

    def script(self, text, *arguments):
        return self.driver.execute_script(text, *arguments)

    def text(self, element):
        return self.script("return document.getElementById(arguments[0]).textContent", element).replace("\u00a0", " ")

    def scheme(self, name):
        features = [{"name": "prefers-color-scheme", "value": name}, {"name": "prefers-reduced-motion", "value": "reduce"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def size(self, width, height=900):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        self.driver.execute_async_script("""const [width, height, done] = arguments, drawn = () => innerWidth === width && innerHeight === height
            ? requestAnimationFrame(done) : requestAnimationFrame(drawn); requestAnimationFrame(drawn);""", width, height)

    def picture(self, path, width):
        self.size(width, self.script("return document.documentElement.scrollHeight"))
        self.driver.save_screenshot(path)

    def keys(self, *keys):
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def problems(self, allowed=r"^(data:|file:///|about:blank)"):
        """What the console has complained of, and requests to elsewhere."""
        out = [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent" and not re.match(allowed, message["params"]["request"]["url"]):
                out.append("asked for " + message["params"]["request"]["url"])
        return out

    def axe(self):
        self.script(AXE)
        found = self.driver.execute_async_script("const done = arguments[0]; axe.run(document, {resultTypes: ['violations']}).then("
                                                 "(all) => done(all.violations.map((one) => one.id + ': ' + one.nodes.map((node) => node.html + ' ' + node.failureSummary).join('; '))))")
        return found


def made_with(browser):
    names = ("system-ui", "DejaVu Sans", "ui-monospace", "monospace")
    fonts = [subprocess.run(["fc-match", "-f", "%{family} %{style} %{fontversion}", name], capture_output=True, text=True).stdout for name in names]
    return {"browser": browser.driver.capabilities["browserVersion"].split(".")[0], "fonts": fonts}


class Goldens:
    def __init__(self, browser):
        self.update, self.file = bool(os.environ.get("DDPRUN_UPDATE")), os.path.join(GOLDEN, "made_with.json")
        self.here, self.problems = made_with(browser), []
        if self.update:
            os.makedirs(GOLDEN, exist_ok=True)
            with open(self.file, "w") as out:
                json.dump(self.here, out, indent=1)
                out.write("\n")
        with open(self.file) as made:
            self.comparable = json.load(made) == self.here
        if not self.comparable:
            print("The golden pictures are of another browser, or of other fonts: they are not compared.")

    def look(self, picture, name):
        golden = os.path.join(GOLDEN, name)
        if self.update:
            Image.open(picture).convert("RGB").quantize(128, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(golden, optimize=True)
        elif self.comparable:
            self.compare(Image.open(picture), Image.open(golden), name)

    def compare(self, picture, golden, name):
        if picture.size != golden.size:
            self.problems.append(f"{name} is {picture.size}, and was {golden.size}")
            return
        small = tuple(max(length // 4, 1) for length in picture.size)
        greys = [one.convert("RGB").convert("L").resize(small, Image.Resampling.BOX) for one in (picture, golden)]
        apart = sum(ImageChops.difference(*greys).histogram()[GREY_APART:]) / (small[0] * small[1])
        if apart > SHARE_APART:
            self.problems.append(f"{name}: {100 * apart:.2f} % of it differs")


def look_at(browser, name, goldens):
    """At all widths, in both colours: nothing is cut off or complained of."""
    browser.driver.get("file://" + os.path.join(FOLDER, name + ".html"))
    for scheme in ("light", "dark"):
        browser.scheme(scheme)
        for width in WIDTHS:
            browser.size(width)
            wide = browser.script("return document.documentElement.scrollWidth")
            assert wide <= width, f"{name} is {wide} px wide at {width} px"
            if (width, scheme) in KEPT or PICTURES:
                picture = os.path.join(FOLDER, f"{name}-{width}-{scheme}.png")
                browser.picture(picture, width)
                if (width, scheme) in KEPT:
                    goldens.look(picture, f"{name}-{width}-{scheme}.png")
            if width in (WIDTHS[0], WIDTHS[-1]):
                found = browser.axe()
                assert not found, f"{name}, {width} px, {scheme}: " + "\n".join(found)
    problems = browser.problems()
    assert not problems, f"{name}: {problems}"
    empty = browser.script("return [...document.querySelectorAll('section, .card, table, ul, ol, dl')]"
                           ".filter((one) => one.checkVisibility() && !one.textContent.trim()).map((one) => one.id || one.className)")
    assert not empty, f"{name} shows empty boxes: {empty}"


def reached_by_keyboard(browser):
    """Ids, or classes, of all that Tab reaches."""
    browser.script("document.activeElement.blur()")
    reached = []
    for _ in range(60):
        browser.keys(Keys.TAB)
        one = browser.script("const one = document.activeElement; return one === document.body ? '' : one.id || one.parentElement.id + ' ' + one.localName")
        if one in reached or not one:
            return reached
        reached.append(one)
    raise AssertionError(f"no end of what Tab reaches: {reached}")


def use_keyboard(browser):
    browser.driver.get("file://" + os.path.join(FOLDER, "many.html"))
    browser.size(1280)
    reached = reached_by_keyboard(browser)
    assert reached[:5] == ["h-more", "by-time", "by-step", "pace div", "loss div"], reached
    plot = browser.driver.find_element(By.CSS_SELECTOR, "#pace .plot")
    told = lambda: (int(plot.get_attribute("aria-valuenow")), plot.get_attribute("aria-valuetext"))
    last = told()
    browser.script("arguments[0].focus()", plot)
    browser.keys(Keys.HOME)
    assert told()[0] == 0 and told()[1] == "13:52:30 · step 4: 5.04", told()
    browser.keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_LEFT)
    assert told()[0] == 1
    for chart, name in (("pace", "Steps per second"), ("loss", "Loss")):  # both are at one time
        assert browser.text(chart).startswith(name + "13:52:32 · step 14 "), browser.text(chart)
    browser.keys(Keys.END)
    assert told() == (last[0], last[1] + "; 253 ranks wait for rank 77 (stopped)"), told()  # a mark is there
    browser.keys(Keys.ESCAPE)
    assert told() == last
    browser.script("arguments[0].focus()", browser.driver.find_element(By.ID, "by-step"))
    browser.keys(Keys.SPACE)
    assert browser.driver.find_element(By.ID, "by-step").get_attribute("aria-pressed") == "true"
    assert ">2,000<" in plot.get_attribute("innerHTML")
    browser.script("arguments[0].focus()", browser.driver.find_element(By.ID, "h-more"))
    browser.keys(Keys.ENTER)
    eventually("the folded ranks", lambda: len(browser.driver.find_elements(By.CSS_SELECTOR, "#folded tbody tr:not(.group)")) == 64)
    found = browser.axe()
    assert not found, found


def cope(browser, page, policy):
    """An agent of before, which says less, and nodes with long names."""
    old = moment("running")
    status, one = old["status"], old["status"]["ranks"][0]
    status["ranks"] = [{**one, "rank": rank, "node": f"gpu-node-{rank // 8:03d}", "held": "folio_wait_bit" if rank == 9 else "", "stopped": rank == 3} for rank in range(40)]
    status["slow_ranks"] = [{"rank": 20, "phase": "compute", "ratio": 1.7}]
    for lacks, fields in [(old, ["marks"]), (status, ["condition", "last_failure"]), *((rank, ["trouble"]) for rank in status["ranks"]),
                          *((one, ["spent", "story"]) for one in old["rounds"])]:
        for field in fields:
            lacks.pop(field)
    with open(os.path.join(FOLDER, "old.html"), "w") as out:
        out.write(with_data(page, policy, old))
    browser.driver.get("file://" + os.path.join(FOLDER, "old.html"))
    for width in WIDTHS:
        browser.size(width)
        wide = browser.script("return document.documentElement.scrollWidth")
        assert wide <= width, f"a page with long names is {wide} px wide at {width} px"
    assert browser.text("state").startswith("running, round 1 · step 6,204"), browser.text("state")
    badges = browser.script("return [...document.querySelectorAll('#ranks .badge')].map((one) => one.textContent)")
    assert badges == ["stopped 0.1 s", "held by the kernel 0.1 s", "slow 1.7×"], badges
    assert not browser.problems()


class Agent:
    """Serves the page and /live as an agent does: what is given to tell(), until close()."""

    def __init__(self, page, policy):
        self.parts, self.more, self.closed = [], threading.Condition(), False
        agent = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200 if self.path in ("/", "/live") else 404)
                self.send_header("Content-Type", "text/html; charset=utf-8" if self.path == "/" else "text/event-stream")
                self.send_header("Content-Security-Policy", policy + "; connect-src 'self'; frame-ancestors 'none'")
                self.end_headers()
                self.wfile.write(page.encode()) if self.path == "/" else agent.stream(self.wfile)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stream(self, out):
        told = 0
        with self.more:
            while not self.closed:
                for part in self.parts[told:]:
                    out.write(part)
                    out.flush()
                told = len(self.parts)
                self.more.wait(LIMIT)

    def tell(self, event, data):
        with self.more:
            self.parts.append(f"event: {event}\ndata: {json.dumps(data)}\n\n".encode())
            self.more.notify_all()

    def close(self):
        with self.more:
            self.closed = True
            self.more.notify_all()
        self.server.shutdown()
        self.server.server_close()


def follow(browser, page, policy):
    """Ages grow between updates, only another kind of state is announced, and the bars of a job that stands still stay."""
    agent = Agent(page, policy)
    browser.size(1280)
    browser.driver.get(f"http://127.0.0.1:{agent.server.server_port}/")
    running = moment("running")
    agent.tell("whole", running)
    eventually("the job", lambda: browser.text("state").startswith("running · step 6,204 of 12,800 · 48.4 % · 22 min left"))
    assert browser.text("said") == "mnist-large: running"
    assert browser.driver.title == "running 48.4 % · mnist-large", browser.driver.title
    icon = browser.driver.find_element(By.ID, "icon").get_attribute("href")
    for rank in running["status"]["ranks"]:  # in the last two seconds all computed
        rank["compute_seconds"] += 2
    agent.tell("change", {"now": running["now"] + 2000, "status": running["status"]})
    compute = lambda: browser.script("return [...document.querySelectorAll('#ranks .bar')].map((one) => one.ariaLabel)")
    eventually("the bars of the last seconds", lambda: compute() == ["load 0 %, compute 100 %, wait 0 %"] * 4)
    still = moment("stands-still")
    agent.tell("change", {"now": still["now"], "status": still["status"], "marks": still["marks"]})
    eventually("that it stands still", lambda: "ranks 0, 1 and 3 wait for rank 2 (stopped)" in browser.text("state"))
    grown = re.compile(r"(?:stands still for|stopped) (6\.[5-9]|[7-9]\.\d|\d\d) s")  # by two seconds
    eventually("an age that grows", lambda: grown.search(browser.text("state")) and grown.search(browser.text("ranks")))
    condition = still["status"]["condition"]
    condition.update(seconds=31.0, text=condition["text"].replace("4.7", "31"))
    agent.tell("change", {"now": still["now"], "status": still["status"]})
    eventually("an update of the same kind", lambda: re.match(r"stands still for 3\d s", browser.text("state")))
    assert "stands still for 4.7 s" in browser.text("said"), browser.text("said")
    assert compute() == ["load 0 %, compute 100 %, wait 0 %"] * 4
    assert browser.driver.title.startswith("stands still")
    assert browser.driver.find_element(By.ID, "icon").get_attribute("href") != icon
    agent.close()
    eventually("that the agent is gone", lambda: browser.text("state").startswith("no contact; 14:13:20: stands still for 31 s"))
    assert "The agent is gone" in browser.text("contact")
    assert browser.text("said").startswith("mnist-large: no contact")
    browser.driver.get("about:blank")
    browser.problems()


def follow_to_the_end(browser, page, policy):
    """What the job has been stays, without what it still had to do, also once its agent is gone."""
    agent = Agent(page, policy)
    browser.driver.get(f"http://127.0.0.1:{agent.server.server_port}/")
    agent.tell("whole", moment("running"))
    agent.tell("ended", {"text": "The job has ended well.", "condition": {"kind": "ended", "level": "over", "seconds": None, "why": "", "text": "ended well after 21 min 20 s"}})
    eventually("the end", lambda: browser.text("state") == "ended well after 21 min 20 s · step 6,204 of 12,800 · 48.4 %")
    assert browser.text("rounds") == "round 1 · 21 min 20 s · ended"
    assert "left" not in browser.text("content")
    agent.close()
    assert browser.text("state").startswith("ended well"), browser.text("state")
    assert browser.driver.find_element(By.ID, "contact").get_property("hidden")
    browser.driver.get("about:blank")
    browser.problems()


def main():
    page, policy = put_together()
    for name in MOMENTS:
        document = with_data(page, policy, moment(name))
        assert len(document) <= REPORT_BYTES_MAX, f"{name} has {len(document)} bytes"
        with open(os.path.join(FOLDER, name + ".html"), "w") as out:
            out.write(document)
    browser = Browser()
    try:
        goldens = Goldens(browser)
        for name in MOMENTS:
            look_at(browser, name, goldens)
        assert not goldens.problems, "; ".join(goldens.problems) + f". Look at the pictures in {FOLDER}, then DDPRUN_UPDATE=1."
        use_keyboard(browser)
        cope(browser, page, policy)
        follow(browser, page, policy)
        follow_to_the_end(browser, page, policy)
    finally:
        browser.driver.quit()


if __name__ == "__main__":
    main()
