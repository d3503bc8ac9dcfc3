package pubsub

import (
	"sync/atomic"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/memory"
)

// PayloadSize is the memory of a waiting message beside its text, in bytes.
const PayloadSize = 128

// Message is a message to a connection. It is a view: all connections that it waits for use
// the same text.
//
// A message without a payload has found no room: its connection must be closed.
type Message struct {
	shared *payload
	head   func(w *resp.Writer)
	// Reply reports that it counts as a reply, which CLIENT REPLY OFF suppresses.
	Reply bool
}

// payload is the text of one or several messages.
type payload struct {
	account *memory.Account
	text    []byte
	size    int64 // in the account
	refs    atomic.Int64

	// For Frees.
	look uint32 // the last look that has found it
	gone int64  // how many of refs that look would release
}

// newPayload returns a payload of size bytes, or nil if there is no room. The caller drops
// it.
func newPayload(account *memory.Account, size int) *payload {
	p := &payload{account: account, size: int64(size) + PayloadSize}
	if !account.Reserve(p.size) {
		return nil
	}
	p.refs.Store(1)
	return p
}

// ownPayload returns a payload that takes over a text.
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

// Lost reports whether the message has found no room.
func (m *Message) Lost() bool { return m.shared == nil }

// Size returns the memory of the message, as if nobody shared it.
func (m *Message) Size() int64 { return m.shared.size }

// Text returns the text, which the connection writes after the head; nil for none.
func (m *Message) Text() []byte { return m.shared.text }

// Head writes what comes before the text, on the connection's thread.
func (m *Message) Head(w *resp.Writer) { m.head(w) }

// Hold notes that one more connection has the message.
func (m *Message) Hold() { m.shared.refs.Add(1) }

// Drop takes back what Hold has noted.
func (m *Message) Drop() { m.shared.drop() }

// Frees returns how many bytes are freed if this connection drops the message, as well as
// those that the same look has asked for before. Only one look is made at a time.
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
