//! What the synchronous interface offers of its own.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, Ordering};

use redis::{Client, Commands, ErrorKind, Expiry, IncrexOptions, IncrexResult, Msg};

use crate::contract::command;
use crate::servers::{self, new_key};
use crate::{PROTOCOLS, choose_cryptography, client};

#[test]
fn transaction() {
    for protocol in PROTOCOLS {
        let mut connection = client(&servers::plain(), protocol).get_connection().expect("a connection");
        let key = new_key();
        let charge = command("CL.THROTTLE {} 4 5 3600", &[&key]);
        let replies: Vec<Vec<i64>> = redis::pipe()
            .atomic()
            .add_command(charge.clone())
            .add_command(charge.clone())
            .query(&mut connection)
            .expect("replies");
        assert_eq!(vec![vec![0, 5, 4, -1, 720], vec![0, 5, 3, -1, 1440]], replies);

        // The library's own retry loop: the first attempt is spoilt by another connection.
        let mut other = client(&servers::plain(), protocol).get_connection().expect("a connection");
        let mut attempts = 0;
        let (reply,): (Vec<i64>,) = redis::transaction(&mut connection, &[&key], |connection, pipe| {
            attempts += 1;
            if attempts == 1 {
                charge.exec(&mut other)?;
            }
            pipe.add_command(charge.clone()).query(connection)
        })
        .expect("a reply");
        assert_eq!((2, 1), (attempts, reply[2]));
    }
}

#[test]
fn publish_and_subscribe() {
    for protocol in PROTOCOLS {
        let client = client(&servers::plain(), protocol);
        let (mut listener, mut speaker) =
            (client.get_connection().expect("a connection"), client.get_connection().expect("a connection"));
        let channel = new_key();
        let mut subscription = listener.as_pubsub();
        subscription.subscribe(&channel).expect("a subscription");
        let heard: i64 = speaker.publish(&channel, "hello").expect("a reply");
        assert_eq!(1, heard);
        let message: Msg = subscription.get_message().expect("a message");
        assert_eq!(channel, message.get_channel_name());
        assert_eq!("hello", message.get_payload::<String>().expect("text"));
        subscription.unsubscribe(&channel).expect("an end");
    }
}

#[test]
fn scan_iterator() {
    for protocol in PROTOCOLS {
        let mut connection = client(&servers::plain(), protocol).get_connection().expect("a connection");
        let prefix = new_key();
        let want: BTreeSet<String> = (0..500).map(|i| format!("{prefix}:{i}")).collect();
        let mut pipeline = redis::pipe();
        for key in &want {
            pipeline.add_command(command("RL.LIMIT {} 10 1d", &[key])).ignore();
        }
        pipeline.exec(&mut connection).expect("replies");
        let got: BTreeSet<String> =
            connection.scan_match(format!("{prefix}:*")).expect("an iterator").map(|key| key.expect("a key")).collect();
        assert_eq!(want, got);
    }
}

#[test]
fn commands_of_its_own() {
    for protocol in PROTOCOLS {
        let mut connection = client(&servers::plain(), protocol).get_connection().expect("a connection");
        let key = new_key();
        for want in [(3, 3), (3, 0)] {
            let options = IncrexOptions::default().upper_bound(5).with_expiration(Expiry::EX(60)).enx();
            let got: IncrexResult = connection.increx(&key, 3, options).expect("a reply");
            assert_eq!(want, got.as_i64().expect("integers"));
        }
        let half: IncrexResult =
            connection.increx(new_key(), 0.5, IncrexOptions::default().upper_bound(1.0)).expect("a reply");
        assert_eq!((0.5, 0.5), half.as_f64().expect("numbers"));
        let there: bool = connection.exists(&key).expect("a reply");
        let deleted: i64 = connection.del(&key).expect("a reply");
        assert_eq!((true, 1), (there, deleted));
    }
}

/// 50 threads over a pool of ten connections are admitted exactly as often as the limit says.
#[test]
fn pool_of_threads_on_one_key() {
    for protocol in PROTOCOLS {
        let pool = r2d2::Pool::builder().max_size(10).build(client(&servers::plain(), protocol)).expect("a pool");
        let charge = command("CL.THROTTLE {} 122 1 86400", &[&new_key()]);
        let admitted = AtomicI64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..50 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        let mut connection = pool.get().expect("a connection");
                        let reply: Vec<i64> = charge.query(&mut *connection).expect("a reply");
                        admitted.fetch_add(1 - reply[0], Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(123, admitted.into_inner());
    }
}

#[test]
fn wrong_password_and_unknown_authority() {
    for protocol in PROTOCOLS {
        let mut at = servers::auth();
        at.password = Some("wrong".to_owned());
        let error = client(&at, protocol).get_connection().err().expect("an error");
        // redis-rs has a kind of its own for AUTH, and hands the error of HELLO through.
        let refused = error.kind() == ErrorKind::AuthenticationFailed || error.code() == Some("WRONGPASS");
        assert!(refused, "{error}");
    }
    choose_cryptography();
    let client = Client::open(format!("rediss://{}", servers::tls().address)).expect("an address");
    let error = client.get_connection().err().expect("the system trusts no authority of a test");
    assert!(error.to_string().contains("UnknownIssuer"), "{error}");
}
