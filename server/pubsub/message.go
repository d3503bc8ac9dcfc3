package pubsub

import (
	"sync/atomic"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/memory"
)

// PayloadSize is the memory of a waiting message, in bytes, without its text.
const PayloadSize = 128

// Message is a message to a connection. All connections that get the message share its
// text.
//
// A message without a payload is lost, because there was no memory for it. The receiving
// connection must then be closed.
type Message struct {
	shared *payload
	head   func(w *resp.Writer)
	// Reply says that CLIENT REPLY OFF suppresses the message, as it suppresses replies.
	Reply bool
}

// payload is the text of one or several messages.
type payload struct {
	account *memory.Account
	text    []byte
	size    int64 // bytes reserved in the account
	refs    atomic.Int64

	// The fields below are for Frees.
	look uint32 // number of the last search that has found the payload
	gone int64  // how many of refs this search would release
}

// newPayload returns a payload of size bytes, or nil if the account has no room. The caller
// holds the first reference, and must drop it at the end.
func newPayload(account *memory.Account, size int) *payload {
	p := &payload{account: account, size: int64(size) + PayloadSize}
	if !account.Reserve(p.size) {
		return nil
	}
	p.refs.Store(1)
	return p
}

// ownPayload returns a payload with a text, which the caller must not use again.
func ownPayload(account *memory.Account, text []byte) *payload {
	p := &payload{account: account, text: text, size: int64(len(text)) + PayloadSize}
	account.Add(p.size)
	p.refs.Store(1)
	return p
}

// drop releases a reference to the payload.
func (p *payload) drop() {
	if p.refs.Add(-1) == 0 {
		p.account.Add(-p.size)
	}
}

// Lost reports whether the message was lost, because there was no memory for it.
func (m *Message) Lost() bool { return m.shared == nil }

// Size returns the memory of the message in bytes, as if only one connection had it.
func (m *Message) Size() int64 { return m.shared.size }

// Text returns the text, which the connection writes after the head; nil if the
// message has no text.
func (m *Message) Text() []byte { return m.shared.text }

// Head writes the part of the message before the text. The connection's thread must call
// it.
func (m *Message) Head(w *resp.Writer) { m.head(w) }

// Hold notes that one more connection has the message.
func (m *Message) Hold() { m.shared.refs.Add(1) }

// Drop notes that a connection no longer has the message. It undoes Hold.
func (m *Message) Drop() { m.shared.drop() }

// Frees returns how many bytes become free if this connection drops the message. The server
// calls it in a search for connections to close, and look is the number of that search.
// Frees assumes that all messages are dropped for which the same search has called it
// before. Only one search may run at a time.
func (m *Message) Frees(look uint32) int64 {
	p := m.shared
	if p.look != look {
		p.look, p.gone = look, 0
	}
	if p.gone++; p.gone >= p.refs.Load() {
		return p.size
	}
	return 0
}
