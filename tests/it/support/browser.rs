//! A headless Chromium of one's own, driven as <https://www.w3.org/TR/webdriver2/> says, through Debian's
//! chromedriver. It ends with the test process, however that ends: a shell waits for the end of its standard input.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::{Client, Method};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::wait::until_true;

/// How long a command, or a thing on a page, may take.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Ends its whole process group, which is not the tests' own: Chromium outlives chromedriver.
const WATCHDOG: &str = r#""$@" & exec >&-; read -r end; kill -KILL 0"#;
/// How often chromedriver is started: it ends where the port that it was given of IPv4 is taken of IPv6.
const STARTS: usize = 5;
/// An element's key in the protocol.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
pub const TAB: char = '\u{E004}';
pub const ENTER: char = '\u{E007}';

/// One window.
pub struct Browser {
    client: Client,
    session: String,
    _driver: Driver,
}

/// chromedriver and its Chromium, with the folder they write to.
struct Driver {
    watchdog: Child,
    folder: TempDir,
}

impl Driver {
    /// Starts one; it, and where it listens.
    fn start() -> (Self, String) {
        let started = (0..STARTS).find_map(|_| Self::try_start());
        started.expect("chromedriver did not start: `make services` installs it, and Chromium")
    }

    /// `None` where it ended before it listened.
    fn try_start() -> Option<(Self, String)> {
        let folder = tempfile::Builder::new().prefix("tu-browser-").tempdir().unwrap();
        let mut watchdog = Command::new("sh")
            .args(["-c", WATCHDOG, "sh", "chromedriver", "--port=0"])
            .env("HOME", folder.path())
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(watchdog.stdout.take().unwrap()).lines();
        let port = said.by_ref().map_while(Result::ok).find_map(|line| {
            line.strip_prefix("ChromeDriver was started successfully on port ")?.strip_suffix('.').map(str::to_owned)
        });
        std::thread::spawn(move || said.for_each(drop)); // what it says must not fill the pipe
        let driver = Self { watchdog, folder };
        Some((driver, format!("http://127.0.0.1:{}", port?)))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        drop(self.watchdog.stdin.take());
        let _ = self.watchdog.wait();
        // Its last processes may still be writing.
        for _ in 0..100 {
            match std::fs::remove_dir_all(self.folder.path()) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => std::thread::yield_now(),
                _ => break,
            }
        }
    }
}

impl Browser {
    pub async fn start() -> Self {
        let (driver, url) = Driver::start();
        let profile = driver.folder.path().join("profile");
        let mut arguments = vec![
            "--headless".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--disable-gpu".to_owned(),
            "--no-first-run".to_owned(),
            "--no-proxy-server".to_owned(),
            "--hide-scrollbars".to_owned(),
            // Whatever a page asks for elsewhere fails, and shows in the console.
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1".to_owned(),
            format!("--user-data-dir={}", profile.display()),
        ];
        let id = Command::new("id").arg("-u").output().unwrap().stdout;
        if id.trim_ascii() == b"0" {
            arguments.push("--no-sandbox".to_owned()); // root has none
        }
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        drop(rustls::crypto::ring::default_provider().install_default());
        let client = Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
        let mut browser = Self { client, session: url, _driver: driver };
        let session = browser.post("/session", &wanted).await;
        browser.session = format!("{}/session/{}", browser.session, session["sessionId"].as_str().unwrap());
        browser
    }

    async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Value {
        let answer = self.answer(method, path, body).await;
        assert!(answer["error"].is_null(), "{path} {body:?}: {answer}");
        answer
    }

    /// What it answers, which may be an error.
    async fn answer(&self, method: Method, path: &str, body: Option<&Value>) -> Value {
        let request = self.client.request(method, format!("{}{path}", self.session));
        let request = match body {
            Some(body) => request.body(body.to_string()),
            None => request,
        };
        let answer = request.send().await.unwrap_or_else(|error| panic!("{path}: {error}")).text().await.unwrap();
        let mut answer: Value = serde_json::from_str(&answer).unwrap_or_else(|_| panic!("{path}: {answer}"));
        answer["value"].take()
    }

    async fn post(&self, path: &str, body: &Value) -> Value {
        self.ask(Method::POST, path, Some(body)).await
    }

    /// Goes there, as if typed; until all of it is loaded.
    pub async fn open(&self, url: &str) {
        self.post("/url", &json!({"url": url})).await;
    }

    /// Where it is.
    pub async fn url(&self) -> String {
        self.ask(Method::GET, "/url", None).await.as_str().unwrap().to_owned()
    }

    /// What the body of a function returns on this page; `arguments[0]` is the argument.
    pub async fn eval(&self, body: &str, argument: impl Into<Value>) -> Value {
        self.post("/execute/sync", &json!({"script": body, "args": [argument.into()]})).await
    }

    /// The text of the first such element as it is shown; `None` where there is none.
    pub async fn text(&self, selector: &str) -> Option<String> {
        let text = self.eval("return document.querySelector(arguments[0])?.innerText ?? null", selector).await;
        text.as_str().map(str::to_owned)
    }

    /// An attribute of it.
    pub async fn attribute(&self, selector: &str, name: &str) -> Option<String> {
        let both = json!([selector, name]);
        let body = "return document.querySelector(arguments[0][0])?.getAttribute(arguments[0][1]) ?? null";
        self.eval(body, both).await.as_str().map(str::to_owned)
    }

    /// How many such elements there are.
    pub async fn count(&self, selector: &str) -> u64 {
        self.eval("return document.querySelectorAll(arguments[0]).length", selector).await.as_u64().unwrap()
    }

    /// Waits for a text in such an element.
    pub async fn until_text(&self, selector: &str, what: &str, is: impl Fn(&str) -> bool) {
        let what = format!("{selector} {what}");
        until_true(&what, PATIENCE, async || self.text(selector).await.is_some_and(|text| is(&text))).await;
    }

    async fn elements(&self, selector: &str) -> Vec<String> {
        let found = self.post("/elements", &json!({"using": "css selector", "value": selector})).await;
        found.as_array().unwrap().iter().map(|element| element[ELEMENT].as_str().unwrap().to_owned()).collect()
    }

    async fn element(&self, selector: &str) -> String {
        self.elements(selector).await.into_iter().next().unwrap_or_else(|| panic!("no {selector}"))
    }

    /// Clicks on the first such element. A live page may replace it after it was found: then on the new one.
    pub async fn click(&self, selector: &str) {
        loop {
            let path = format!("/element/{}/click", self.element(selector).await);
            let answer = self.answer(Method::POST, &path, Some(&json!({}))).await;
            if answer["error"] != "stale element reference" {
                assert!(answer["error"].is_null(), "{selector}: {answer}");
                return;
            }
        }
    }

    /// Gives it the focus.
    pub async fn focus(&self, selector: &str) {
        self.eval("document.querySelector(arguments[0]).focus()", selector).await;
    }

    /// Types into it.
    pub async fn type_into(&self, selector: &str, text: &str) {
        let element = self.element(selector).await;
        self.post(&format!("/element/{element}/value"), &json!({"text": text})).await;
    }

    /// What those who cannot see are told of each such element: its role and its name.
    pub async fn names(&self, selector: &str) -> Vec<(String, String)> {
        let (mut names, mut elements) = (Vec::new(), self.elements(selector).await);
        let mut again = 3;
        while let Some(element) = elements.get(names.len()) {
            let role = self.answer(Method::GET, &format!("/element/{element}/computedrole"), None).await;
            let name = self.answer(Method::GET, &format!("/element/{element}/computedlabel"), None).await;
            match (role.as_str(), name.as_str()) {
                // A live page may have put another in its place between the two questions: without a name is what stays so.
                (Some(role), Some("")) if role != "none" && again > 0 => {
                    again -= 1;
                    elements = self.elements(selector).await;
                }
                (Some(role), Some(name)) => names.push((role.to_owned(), name.to_owned())),
                // A live page has put another in its place.
                _ if [&role, &name].iter().any(|answer| answer["error"] == "stale element reference") => {
                    elements = self.elements(selector).await;
                }
                _ => panic!("{element} of {selector}: {role} {name}"),
            }
        }
        names
    }

    /// Presses keys, wherever the focus is.
    pub async fn press(&self, keys: &[char]) {
        let strokes: Vec<Value> = keys
            .iter()
            .flat_map(|key| ["keyDown", "keyUp"].map(|stroke| json!({"type": stroke, "value": key.to_string()})))
            .collect();
        self.post("/actions", &json!({"actions": [{"type": "key", "id": "keys", "actions": strokes}]})).await;
    }

    /// What the console holds since it was last asked, but for what is only told by the way.
    pub async fn console(&self) -> Vec<String> {
        let lines = self.post("/se/log", &json!({"type": "browser"})).await;
        let told = |line: &&Value| line["level"] != "INFO" && line["level"] != "DEBUG";
        lines.as_array().unwrap().iter().filter(told).map(|line| line["message"].to_string()).collect()
    }

    /// A command of the Chrome DevTools Protocol.
    async fn devtools(&self, command: &str, params: Value) -> Value {
        self.post("/goog/cdp/execute", &json!({"cmd": command, "params": params})).await
    }

    /// A window of this width, px, on a screen that prefers dark or light.
    pub async fn looks(&self, width: u32, dark: bool) {
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600});
        self.devtools("Emulation.setDeviceMetricsOverride", size).await;
        let scheme = if dark { "dark" } else { "light" };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.devtools("Emulation.setEmulatedMedia", features).await;
    }

    /// Runs no script of any page from the next one on.
    pub async fn without_script(&self) {
        self.devtools("Emulation.setScriptExecutionDisabled", json!({"value": true})).await;
    }

    /// A picture of the whole page, as long as it is.
    pub async fn picture(&self, file: &Path) {
        let size = async || self.devtools("Page.getLayoutMetrics", json!({})).await["cssContentSize"].clone();
        // One that was opened a moment ago may not be laid out yet.
        until_true("the page has a size", PATIENCE, async || size().await["width"].as_f64() > Some(0.0)).await;
        let mut clip = size().await;
        clip["scale"] = 1.into();
        let whole = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
        let picture = self.devtools("Page.captureScreenshot", whole).await;
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, STANDARD.decode(picture["data"].as_str().unwrap()).unwrap()).unwrap();
    }
}
