// Package pubsub sends connections what they have subscribed to: messages of channels,
// lines of MONITOR, and invalidations of CLIENT TRACKING.
//
// The [Hub] of a server knows all subscribers. A [Subscriber] is this room's part of a
// connection. It sends the connection, which it knows as a [Conn], a [Message].
//
// [Commands] are the commands of Pub/Sub. The server adds MONITOR and the subcommands of
// CLIENT to its own lists; their handlers are methods of Subscriber.
package pubsub
