//! What the tokio interface offers of its own.

use std::collections::BTreeSet;

use futures_util::StreamExt;
use redis::{AsyncCommands, IncrexOptions, IncrexResult};

use crate::contract::command;
use crate::servers::{self, new_key};
use crate::{PROTOCOLS, client};

#[tokio::test]
async fn transaction() {
    for protocol in PROTOCOLS {
        let mut connection =
            client(&servers::plain(), protocol).get_multiplexed_async_connection().await.expect("a connection");
        let charge = command("CL.THROTTLE {} 4 5 3600", &[&new_key()]);
        let replies: Vec<Vec<i64>> = redis::pipe()
            .atomic()
            .add_command(charge.clone())
            .add_command(charge)
            .query_async(&mut connection)
            .await
            .expect("replies");
        assert_eq!(vec![vec![0, 5, 4, -1, 720], vec![0, 5, 3, -1, 1440]], replies);
    }
}

#[tokio::test]
async fn publish_and_subscribe() {
    for protocol in PROTOCOLS {
        let client = client(&servers::plain(), protocol);
        let mut subscription = client.get_async_pubsub().await.expect("a connection");
        let channel = new_key();
        subscription.subscribe(&channel).await.expect("a subscription");
        let mut speaker = client.get_multiplexed_async_connection().await.expect("a connection");
        let heard: i64 = speaker.publish(&channel, "hello").await.expect("a reply");
        assert_eq!(1, heard);
        let message = subscription.on_message().next().await.expect("a message");
        assert_eq!("hello", message.get_payload::<String>().expect("text"));
    }
}

#[tokio::test]
async fn scan_iterator() {
    for protocol in PROTOCOLS {
        let mut connection =
            client(&servers::plain(), protocol).get_multiplexed_async_connection().await.expect("a connection");
        let prefix = new_key();
        let want: BTreeSet<String> = (0..500).map(|i| format!("{prefix}:{i}")).collect();
        for key in &want {
            command("RL.LIMIT {} 10 1d", &[key]).exec_async(&mut connection).await.expect("a reply");
        }
        let mut got = BTreeSet::new();
        let mut keys = connection.scan_match::<_, String>(format!("{prefix}:*")).await.expect("an iterator");
        while let Some(key) = keys.next_item().await {
            got.insert(key.expect("a key"));
        }
        assert_eq!(want, got);
    }
}

/// 50 tasks that share a multiplexed connection are admitted exactly as often as the limit says.
#[tokio::test(flavor = "multi_thread")]
async fn tasks_on_one_key() {
    for protocol in PROTOCOLS {
        let connection =
            client(&servers::plain(), protocol).get_multiplexed_async_connection().await.expect("a connection");
        let charge = command("CL.THROTTLE {} 122 1 86400", &[&new_key()]);
        let tasks: Vec<_> = (0..50)
            .map(|_| {
                let (mut connection, charge) = (connection.clone(), charge.clone());
                tokio::spawn(async move {
                    let mut admitted = 0;
                    for _ in 0..10 {
                        let reply: Vec<i64> = charge.query_async(&mut connection).await.expect("a reply");
                        admitted += 1 - reply[0];
                    }
                    admitted
                })
            })
            .collect();
        let mut admitted = 0;
        for task in tasks {
            admitted += task.await.expect("a task");
        }
        assert_eq!(123, admitted);
    }
}

#[tokio::test]
async fn commands_of_its_own() {
    for protocol in PROTOCOLS {
        let mut connection =
            client(&servers::plain(), protocol).get_multiplexed_async_connection().await.expect("a connection");
        let key = new_key();
        let reply: IncrexResult =
            connection.increx(&key, 3, IncrexOptions::default().upper_bound(5)).await.expect("a reply");
        assert_eq!((3, 3), reply.as_i64().expect("integers"));
        let there: bool = connection.exists(&key).await.expect("a reply");
        assert!(there);
    }
}
