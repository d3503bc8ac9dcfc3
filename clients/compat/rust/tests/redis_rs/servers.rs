//! The servers of a run, as clients/compat/run.sh describes them in the environment, and servers that a
//! test starts itself in order to kill them.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

fn need(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: start the tests with clients/compat/run.sh rust"))
}

/// Where and how to reach a server.
#[derive(Clone, Debug, Default)]
pub struct Endpoint {
    pub address: String,
    pub password: Option<String>,
    /// The authority in PEM, if the server speaks TLS.
    pub authority: Option<Vec<u8>>,
}

pub fn plain() -> Endpoint {
    Endpoint { address: need("HGTEST_ADDR"), ..Endpoint::default() }
}

pub fn auth() -> Endpoint {
    Endpoint { address: need("HGTEST_AUTH_ADDR"), password: Some(need("HGTEST_PASSWORD")), ..Endpoint::default() }
}

pub fn tls() -> Endpoint {
    Endpoint {
        address: need("HGTEST_TLS_ADDR"),
        authority: Some(std::fs::read(need("HGTEST_TLS_CA")).expect("the authority's file")),
        ..Endpoint::default()
    }
}

/// A key that no other test uses.
pub fn new_key() -> String {
    static KEYS: AtomicU64 = AtomicU64::new(0);
    format!("clients-rust:{}:{}", std::process::id(), KEYS.fetch_add(1, Ordering::Relaxed))
}

/// A headgate process on a port that the system chose.
pub struct Server {
    address: String,
    process: Child,
}

impl Server {
    pub fn start() -> Server {
        let (address, process) = Self::spawn("127.0.0.1:0");
        Server { address, process }
    }

    /// Starts the server again on the same port.
    pub fn restart(&mut self) {
        (_, self.process) = Self::spawn(&self.address);
    }

    fn spawn(listen: &str) -> (String, Child) {
        let mut process = Command::new(need("HGTEST_BIN"))
            .args(["serve", "--listen", listen, "--http-listen", "127.0.0.1:0", "--log-format", "json"])
            .stderr(Stdio::piped())
            .spawn()
            .expect("headgate starts");
        let mut log = BufReader::new(process.stderr.take().expect("a pipe")).lines();
        let listening = log
            .by_ref()
            .map_while(Result::ok)
            .find(|line| line.contains(r#""msg":"listening""#))
            .expect("headgate ended before it listened");
        let address =
            listening.split(r#""listen":""#).nth(1).and_then(|rest| rest.split('"').next()).expect("an address");
        // A closed or full pipe would disturb the server.
        std::thread::spawn(move || log.for_each(drop));
        (address.to_owned(), process)
    }

    pub fn endpoint(&self) -> Endpoint {
        Endpoint { address: self.address.clone(), ..Endpoint::default() }
    }

    /// Ends the process as a crash does.
    pub fn kill(&mut self) {
        self.process.kill().expect("headgate runs");
        self.process.wait().expect("headgate ends");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have been killed already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
