//! What an application gets through either interface, in either protocol and over any transport.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use redis::{Cmd, Pipeline, ProtocolVersion, RedisResult, Value, from_redis_value};

use crate::servers::{self, Endpoint, Server, new_key};
use crate::{PROTOCOLS, client};

/// A connected client of either interface.
pub trait Run {
    fn run(&mut self, command: &Cmd) -> RedisResult<Value>;
    fn pipeline(&mut self, pipeline: &Pipeline) -> RedisResult<Vec<Value>>;
}

struct Sync(redis::Connection);

impl Run for Sync {
    fn run(&mut self, command: &Cmd) -> RedisResult<Value> {
        command.query(&mut self.0)
    }

    fn pipeline(&mut self, pipeline: &Pipeline) -> RedisResult<Vec<Value>> {
        pipeline.query(&mut self.0)
    }
}

struct Tokio(tokio::runtime::Runtime, redis::aio::MultiplexedConnection);

impl Run for Tokio {
    fn run(&mut self, command: &Cmd) -> RedisResult<Value> {
        self.0.block_on(command.query_async(&mut self.1))
    }

    fn pipeline(&mut self, pipeline: &Pipeline) -> RedisResult<Vec<Value>> {
        self.0.block_on(pipeline.query_async(&mut self.1))
    }
}

fn open_sync(at: &Endpoint, protocol: ProtocolVersion) -> Box<dyn Run> {
    Box::new(Sync(client(at, protocol).get_connection().expect("a connection")))
}

fn open_tokio(at: &Endpoint, protocol: ProtocolVersion) -> Box<dyn Run> {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let connection = runtime.block_on(client(at, protocol).get_multiplexed_async_connection()).expect("a connection");
    Box::new(Tokio(runtime, connection))
}

/// Runs a check over every interface, protocol and transport.
fn everywhere(check: fn(&mut dyn Run, ProtocolVersion)) {
    for protocol in PROTOCOLS {
        for at in [servers::plain(), servers::auth(), servers::tls()] {
            check(open_sync(&at, protocol).as_mut(), protocol);
            check(open_tokio(&at, protocol).as_mut(), protocol);
        }
    }
}

/// A command of words: `command("RL.LIMIT {} 10 60", &[key])`.
pub fn command(words: &str, keys: &[&str]) -> Cmd {
    let mut keys = keys.iter();
    let mut command = Cmd::new();
    for word in words.split(' ') {
        command.arg(if word == "{}" { keys.next().expect("a key for each {}") } else { word });
    }
    command
}

fn run(client: &mut dyn Run, words: &str, keys: &[&str]) -> Value {
    client.run(&command(words, keys)).unwrap_or_else(|error| panic!("{words}: {error}"))
}

fn ints(value: Value) -> Vec<i64> {
    from_redis_value(value).expect("integers")
}

fn int(value: Value) -> i64 {
    from_redis_value(value).expect("an integer")
}

fn text(value: Value) -> String {
    from_redis_value(value).expect("a string")
}

const DECISION: &[&str] = &["allowed", "limit", "remaining", "retry_after_ms", "reset_after_ms", "delay_ms"];
const CHAIN: &[&str] = &["allowed", "limit", "remaining", "retry_after_ms", "reset_after_ms", "delay_ms", "limits"];
const SLOTS: &[&str] = &["allowed", "limit", "remaining", "retry_after_ms", "id", "ttl_ms"];

/// Names the values of a reply: of an array in RESP2, of a map in RESP3.
fn named(reply: Value, names: &[&'static str], protocol: ProtocolVersion) -> HashMap<&'static str, Value> {
    let values = match (protocol, reply) {
        (ProtocolVersion::RESP3, Value::Map(pairs)) => {
            let (found, values): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            assert_eq!(names, found.into_iter().map(text).collect::<Vec<_>>());
            values
        }
        (ProtocolVersion::RESP2, Value::Array(values)) => values,
        (_, other) => panic!("{other:?} is no reply in {protocol:?}"),
    };
    assert_eq!(names.len(), values.len());
    names.iter().copied().zip(values).collect()
}

fn limit(client: &mut dyn Run, protocol: ProtocolVersion, words: &str, keys: &[&str]) -> HashMap<&'static str, i64> {
    let reply = run(client, words, keys);
    named(reply, DECISION, protocol).into_iter().map(|(name, value)| (name, int(value))).collect()
}

fn assert_near(actual: i64, expected: i64, within: i64) {
    assert!((actual - expected).abs() <= within, "{actual} is not within {within} of {expected}");
}

#[test]
fn handshake() {
    everywhere(|client, protocol| {
        let info = text(run(client, "CLIENT INFO", &[]));
        let version = if protocol == ProtocolVersion::RESP3 { "resp=3" } else { "resp=2" };
        assert!(info.contains(version) && info.contains("lib-name=redis-rs"), "{info}");
        assert_eq!("PONG", text(run(client, "PING", &[])));
    });
}

/// The vectors of redis-cell: its README's, its unit test's at t = 0, and a burst taken to its end.
#[test]
fn cl_throttle() {
    everywhere(|client, _| {
        assert_eq!(vec![0, 16, 15, -1, 2], ints(run(client, "CL.THROTTLE {} 15 30 60", &[&new_key()])));

        let key = new_key();
        let mut pipeline = Pipeline::new();
        pipeline.add_command(command("CL.THROTTLE {} 4 1 1 6", &[&key]));
        for _ in 0..6 {
            pipeline.add_command(command("CL.THROTTLE {} 4 1 1", &[&key]));
        }
        let mut want = vec![vec![1, 5, 5, -1, 0]];
        want.extend((0..5).map(|i| vec![0, 5, 4 - i, -1, i + 1]));
        want.push(vec![1, 5, 0, 1, 5]);
        let replies = client.pipeline(&pipeline).expect("replies");
        assert_eq!(want, replies.into_iter().map(ints).collect::<Vec<_>>());

        let key = new_key();
        for left in (0..16).rev() {
            let admitted = ints(run(client, "CL.THROTTLE {} 15 30 3600", &[&key]));
            assert_eq!([0, 16, left, -1], admitted[..4]);
        }
        let denied = ints(run(client, "CL.THROTTLE {} 15 30 3600", &[&key]));
        assert_eq!([1, 16, 0], denied[..3]);
        assert_near(denied[3], 120, 5);
        assert_near(denied[4], 16 * 120, 5);
    });
}

#[test]
fn rl_limit() {
    everywhere(|client, protocol| {
        let key = new_key();
        let first = limit(client, protocol, "RL.LIMIT {} 10 1d", &[&key]);
        let want = [1, 10, 9, 0, 8_640_000, 0];
        assert_eq!(want.to_vec(), DECISION.iter().map(|name| first[name]).collect::<Vec<_>>());
        assert_eq!(9, limit(client, protocol, "RL.LIMIT {} 10 1d COST 0", &[&key])["remaining"]);
        assert_eq!(1, limit(client, protocol, "RL.LIMIT {} 10 1d COST 8", &[&key])["remaining"]);
        let denied = limit(client, protocol, "RL.LIMIT {} 10 1d COST 2", &[&key]);
        assert_eq!((0, 1), (denied["allowed"], denied["remaining"]), "what is denied takes nothing");
        assert_near(denied["retry_after_ms"], 8_640_000, 5000);
        assert_eq!(-1, limit(client, protocol, "RL.LIMIT {} 10 1d COST 11", &[&key])["retry_after_ms"]);
    });
}

#[test]
fn rl_limit_with_and() {
    everywhere(|client, protocol| {
        let (hour, day) = (new_key(), new_key());
        let mut chain =
            || named(run(client, "RL.LIMIT {} 2 1h AND {} 100 1d COST 10", &[&hour, &day]), CHAIN, protocol);
        for left in [1, 0] {
            let mut admitted = chain();
            assert_eq!(1, int(admitted.remove("allowed").unwrap()));
            assert_eq!(left, int(admitted.remove("remaining").unwrap()), "the first has the least remaining");
        }
        let mut denied = chain();
        assert_eq!(0, int(denied.remove("allowed").unwrap()));
        assert_eq!(2, int(denied.remove("limit").unwrap()), "the limit that denied");
        let Some(Value::Array(each)) = denied.remove("limits") else { panic!("no limits") };
        let left = each.into_iter().map(|one| int(named(one, DECISION, protocol).remove("remaining").unwrap()));
        assert_eq!(vec![0, 80], left.collect::<Vec<_>>());
        assert_eq!(80, limit(client, protocol, "RL.LIMIT {} 100 1d COST 0", &[&day])["remaining"], "all or none");
    });
}

#[test]
fn gcra_and_increx() {
    everywhere(|client, _| {
        let key = new_key();
        assert_eq!(vec![0, 5, 4, -1, 720], ints(run(client, "GCRA {} 4 5 3600", &[&key])));
        assert_eq!(vec![0, 5, 0, -1, 3600], ints(run(client, "GCRA {} 4 5 3600 TOKENS 4", &[&key])));
        assert_eq!(vec![1, 5, 0, 720, 3600], ints(run(client, "GCRA {} 4 5 3600", &[&key])));

        let key = new_key();
        for want in [[2, 2], [4, 2], [4, 0]] {
            assert_eq!(want.to_vec(), ints(run(client, "INCREX {} BYINT 2 UBOUND 5 EX 60 ENX", &[&key])));
        }
        assert_near(int(run(client, "TTL {}", &[&key])), 60, 2);
    });
}

#[test]
fn slots() {
    everywhere(|client, protocol| {
        let key = new_key();
        let mut first = named(run(client, "RL.ACQUIRE {} 2 60", &[&key]), SLOTS, protocol);
        assert_eq!(1, int(first.remove("allowed").unwrap()));
        let id = text(first.remove("id").unwrap());
        assert_eq!(32, id.len());
        let mut second = named(run(client, "RL.ACQUIRE {} 2 60 ID mine", &[&key]), SLOTS, protocol);
        assert_eq!(0, int(second.remove("remaining").unwrap()));
        let full = named(run(client, "RL.ACQUIRE {} 2 60", &[&key]), SLOTS, protocol);
        assert_eq!((&Value::Int(0), &Value::Nil), (&full["allowed"], &full["id"]));
        assert_eq!(1, int(run(client, "RL.EXTEND {} mine 2m", &[&key])));
        assert_eq!(1, int(run(client, "RL.RELEASE {} {}", &[&key, &id])));
        assert_eq!(0, int(run(client, "RL.RELEASE {} {}", &[&key, &id])), "released already");
        assert_eq!(Value::Int(1), named(run(client, "RL.ACQUIRE {} 2 60", &[&key]), SLOTS, protocol)["allowed"]);
    });
}

#[test]
fn errors() {
    everywhere(|client, protocol| {
        let key = new_key();
        run(client, "RL.LIMIT {} 10 60", &[&key]);
        for (words, code, detail) in [
            ("INCREX {}", "WRONGTYPE", "Operation against a key"),
            ("RL.LIMIT {} 10 60 NONSENSE", "ERR", "syntax error"),
            ("CL.THROTTLE {} many 30 60", "ERR", "value is not an integer"),
            ("CL.THROTTLE {}", "ERR", "wrong number of arguments"),
            ("NOSUCHCOMMAND {}", "ERR", "unknown command 'NOSUCHCOMMAND'"),
        ] {
            let error = client.run(&command(words, &[&key])).expect_err(words);
            assert_eq!(Some(code), error.code(), "{words}: {error}");
            assert!(error.detail().unwrap_or_default().starts_with(detail), "{words}: {error}");
        }
        assert_eq!(8, limit(client, protocol, "RL.LIMIT {} 10 60", &[&key])["remaining"], "errors charge nothing");
    });
}

#[test]
fn keyspace() {
    everywhere(|client, _| {
        let (bucket, counter) = (new_key(), new_key());
        run(client, "RL.LIMIT {} 10 600", &[&bucket]);
        run(client, "INCREX {}", &[&counter]);
        assert_eq!(2, int(run(client, "EXISTS {} {} {}", &[&bucket, &counter, &new_key()])));
        assert_eq!("token", text(run(client, "TYPE {}", &[&bucket])));
        assert_eq!("string", text(run(client, "TYPE {}", &[&counter])));
        assert_near(int(run(client, "TTL {}", &[&bucket])), 60, 2);
        assert_eq!(-1, int(run(client, "TTL {}", &[&counter])));
        assert_eq!(2, int(run(client, "DEL {} {}", &[&bucket, &counter])));
        assert_eq!(0, int(run(client, "EXISTS {}", &[&bucket])));
    });
}

#[test]
fn pipeline_of_1000_in_order() {
    everywhere(|client, _| {
        let n = 500;
        let key = new_key();
        let mut pipeline = Pipeline::new();
        for i in 0..n {
            pipeline.add_command(command(&format!("CL.THROTTLE {{}} {} {n} 86400", n - 1), &[&key]));
            pipeline.cmd("ECHO").arg(i);
        }
        let replies = client.pipeline(&pipeline).expect("replies");
        assert_eq!(2 * n as usize, replies.len());
        for (i, pair) in (0..n).zip(replies.chunks_exact(2)) {
            assert_eq!([0, n, n - 1 - i], ints(pair[0].clone())[..3]);
            assert_eq!(i.to_string(), text(pair[1].clone()));
        }
    });
}

/// A connection of redis-rs ends with its server; an application opens another.
#[test]
fn reconnect_after_a_crash() {
    for protocol in PROTOCOLS {
        for open in [open_sync, open_tokio] {
            let mut server = Server::start();
            let key = new_key();
            let check = command("RL.LIMIT {} 3 1d", &[&key]);
            let mut client = open(&server.endpoint(), protocol);
            client.run(&check).expect("a reply");
            server.kill();
            let error = client.run(&check).expect_err("the server is dead");
            assert!(error.is_io_error() || error.is_connection_dropped(), "{error}");
            server.restart();
            let mut client = open(&server.endpoint(), protocol);
            let left = limit(client.as_mut(), protocol, "RL.LIMIT {} 3 1d", &[&key])["remaining"];
            assert_eq!(2, left, "the restarted server has no state");
        }
    }
}

/// The connection manager finds the server again by itself.
#[test]
fn connection_manager_reconnects() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut server = Server::start();
    let client = client(&server.endpoint(), ProtocolVersion::RESP3);
    let mut manager = runtime.block_on(client.get_connection_manager()).expect("a connection");
    let ping = command("PING", &[]);
    let _: Value = runtime.block_on(ping.query_async(&mut manager)).expect("a reply");
    server.kill();
    server.restart();
    let deadline = Instant::now() + Duration::from_secs(10);
    while let Err(error) = runtime.block_on(ping.query_async::<Value>(&mut manager)) {
        assert!(Instant::now() < deadline, "{error}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
