package server

import (
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/pubsub"
)

// onConn returns the handler of a command about its connection.
func onConn(fn func(c *conn, args [][]byte)) command.Handler {
	return func(call *command.Call) { fn(call.Host.(*conn), call.Args) }
}

// onCall does the same as onConn for a handler that needs its whole call, not only the
// arguments.
func onCall(fn func(c *conn, call *command.Call)) command.Handler {
	return func(call *command.Call) { fn(call.Host.(*conn), call) }
}

// onSubscriber does the same as onConn for a command of package pubsub.
func onSubscriber(fn func(s *pubsub.Subscriber, call *command.Call)) command.Handler {
	return func(call *command.Call) { fn(&call.Host.(*conn).subscriber, call) }
}

// Errors of arguments, as replies.
const (
	errSyntax   = "ERR syntax error"
	errNotAnInt = "ERR value is not an integer or out of range"
)
