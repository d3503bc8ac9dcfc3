// Package pubsub sends three kinds of messages to the connections that have asked for
// them: messages of channels, lines of MONITOR, and invalidations of CLIENT TRACKING.
//
// The [Hub] of a server knows all subscribers. Each connection (here a [Conn]) has a
// [Subscriber] with the connection's subscriptions. A Subscriber sends a [Message] to
// its connection.
//
// [Commands] returns the commands of Pub/Sub. The server adds MONITOR and the subcommands
// of CLIENT to its own lists; their handlers are methods of Subscriber.
package pubsub
