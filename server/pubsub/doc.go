// Package pubsub sends connections what they have subscribed to: messages of channels,
// lines of MONITOR, and invalidations of CLIENT TRACKING.
//
// The [Hub] of a server knows all subscribers. Each connection, which this package knows as
// a [Conn], has a [Subscriber] with its subscriptions. A Subscriber sends a [Message] to
// its connection.
//
// [Commands] returns the commands of Pub/Sub. The server adds MONITOR and the subcommands
// of CLIENT to its own lists; their handlers are methods of Subscriber.
package pubsub
