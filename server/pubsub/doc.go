// Package pubsub sends connections what they have asked to hear: messages of channels,
// lines of MONITOR, and invalidations of CLIENT TRACKING.
//
// The [Hub] of a server knows who has asked for what. A [Subscriber] is the part of a
// connection that this room keeps. A [Message] is what it sends to a connection, which
// the room knows as a [Conn].
//
// [Commands] are those of Pub/Sub. The server adds MONITOR and the subcommands of
// CLIENT to its own lists; their handlers are methods of Subscriber.
package pubsub
