package pubsub

import (
	"sync/atomic"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/memory"
)

// PayloadSize is what a message takes wherever it waits, beside its text.
const PayloadSize = 128

// Message is what a connection is sent unasked. It is a view: the text belongs to all
// connections that the message waits for.
//
// A message without a payload has found no room: its connection is to be closed.
type Message struct {
	shared *payload
	head   func(w *resp.Writer)
	// Reply: it counts as a reply, which CLIENT REPLY OFF leaves out.
	Reply bool
}

// payload is a text, or what makes one, as it is shared by those who wait for it.
type payload struct {
	account *memory.Account
	text    []byte
	size    int64 // in the account
	refs    atomic.Int64

	// Of Frees.
	look uint32 // the last that has found it
	gone int64  // how many of refs are to go, as that look has counted
}

// newPayload makes a payload of size bytes, or returns nil where there is no room.
// The caller drops it.
func newPayload(account *memory.Account, size int) *payload {
	p := &payload{account: account, size: int64(size) + PayloadSize}
	if !account.Reserve(p.size) {
		return nil
	}
	p.refs.Store(1)
	return p
}

// ownPayload makes a payload of a text, which becomes its own.
func ownPayload(account *memory.Account, text []byte) *payload {
	p := &payload{account: account, text: text, size: int64(len(text)) + PayloadSize}
	account.Add(p.size)
	p.refs.Store(1)
	return p
}

// drop lets go of the payload.
func (p *payload) drop() {
	if p.refs.Add(-1) == 0 {
		p.account.Add(-p.size)
	}
}

// Lost reports whether the message has found no room.
func (m *Message) Lost() bool { return m.shared == nil }

// Size is what the message takes, as if it were here alone.
func (m *Message) Size() int64 { return m.shared.size }

// Text returns the text, which the connection writes behind the head; nil for none.
func (m *Message) Text() []byte { return m.shared.text }

// Head writes what precedes the text, on the connection's thread.
func (m *Message) Head(w *resp.Writer) { m.head(w) }

// Hold notes that one more connection has the message.
func (m *Message) Hold() { m.shared.refs.Add(1) }

// Drop takes back what Hold has noted.
func (m *Message) Drop() { m.shared.drop() }

// Frees returns how many bytes come back if the connection lets go of the message,
// together with those that the same look has asked before. One look is made at a time.
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
