package peer

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// # The handshake of a peer connection
//
// Every connection between nodes, or from an operator's tool to a node, begins with this
// handshake. It costs one round trip:
//
//	dialler:  hello    versions, kind, flags, group, nonce, hint, ids
//	acceptor: answer   status, version, versions, nonce, proof
//	dialler:  proof    and at once what the connection is for
//
// Each side proves that it knows a shared secret. The proof is an HMAC-SHA256 over the
// hello, the answer and the side's role. Hello and answer each contain a fresh nonce, so
// an attacker cannot replay a recorded proof or send it back. The hint is an HMAC over
// the hello, and shows the acceptor which secret the dialler uses. The hint also
// protects the acceptor's own proof: a dialler without a secret never receives it, and
// so cannot test guessed passwords on it. If neither side has a secret, there is no
// proof. Then the connections use mutual TLS, or there is nothing to protect.
//
// The versions are the lowest and the highest version of the protocol that a side
// speaks. After the handshake, both sides speak the highest version that they share.
// Hello and answer have the same layout in all versions, but a later version may add
// fields at the end of the hello. A side ignores fields that it does not know, but its
// proof covers them.
//
// TLS with a pre-shared key would do the same, but Go's TLS does not support it. Without
// TLS, nothing protects a connection from packets that are changed on the way.
const (
	handshakeMagic = "HGP\xff"

	protocolLowest, protocolHighest = 3, 3

	nonceSize = 32
	proofSize = sha256.Size
	hintSize  = 16

	helloHead = len(handshakeMagic) + 2 + 2 // magic, versions, length of the body

	// maxHello bounds the body of a hello, in every version.
	maxHello = 1 << 10

	// The body of a hello.
	helloKind  = 0
	helloFlags = 1
	helloGroup = 2
	helloNonce = 6
	helloHint  = helloNonce + nonceSize
	helloNames = helloHint + hintSize // ids of node, cluster and data, each after its length in a byte

	// The answer.
	answerStatus   = len(handshakeMagic)
	answerVersion  = answerStatus + 1
	answerVersions = answerVersion + 1
	answerNonce    = answerVersions + 2
	answerProof    = answerNonce + nonceSize
	answerSize     = answerProof + proofSize

	// flagSecret reports that the dialler has a secret.
	flagSecret = 1
)

// The roles that go into the HMACs.
const (
	roleHint    = "headgate peer hello"
	roleAccepts = "headgate peer accepts"
	roleDials   = "headgate peer dials"
)

// status is what an acceptor answers.
type status byte

const (
	statusAccepted    status = iota
	statusVersion            // no version in common
	statusNeedsSecret        // the acceptor has a secret and the dialler has none
	statusNoSecret           // the dialler has a secret and the acceptor has none
	statusWrongSecret        // they have different ones
	statusNotServed          // no listener for the kind and group, or not yet
	statusTooMany            // connections of the kind
)

// versions is the range of protocols that a side speaks.
type versions struct{ lowest, highest byte }

var ownVersions = versions{protocolLowest, protocolHighest}

// common returns the highest version that both sides speak.
func (v versions) common(o versions) (byte, bool) {
	highest := min(v.highest, o.highest)
	return highest, highest >= max(v.lowest, o.lowest)
}

func (v versions) String() string {
	if v.lowest == v.highest {
		return fmt.Sprint(v.lowest)
	}
	return fmt.Sprintf("%d to %d", v.lowest, v.highest)
}

// sign returns the HMAC of parts, each after its length.
func sign(secret []byte, role string, parts ...[]byte) []byte {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte(role))
	var size [4]byte
	for _, p := range parts {
		binary.BigEndian.PutUint32(size[:], uint32(len(p)))
		m.Write(size[:])
		m.Write(p)
	}
	return m.Sum(nil)
}

// party is one side of handshakes.
type party struct {
	versions versions
	secrets  [][]byte // all are accepted, the first is used to dial; none: nothing is proved
}

func newParty(s Secrets) party {
	p := party{versions: ownVersions}
	if s != nil {
		p.secrets = s()
	}
	return p
}

// dial does the dialler's part.
func (p party) dial(c io.ReadWriter, purpose Purpose, node string) error {
	var secret []byte
	if len(p.secrets) > 0 {
		secret = p.secrets[0]
	}
	h, err := newHello(p.versions, purpose, node, secret)
	if err != nil {
		return err
	}
	if _, err := c.Write(h.raw); err != nil {
		return err
	}
	var answer [answerSize]byte
	if n, err := io.ReadFull(c, answer[:]); err != nil {
		if n >= len(handshakeMagic) && string(answer[:len(handshakeMagic)]) != handshakeMagic {
			return fmt.Errorf("%q is not the beginning of a node's answer", answer[:len(handshakeMagic)])
		}
		return err
	}
	if string(answer[:len(handshakeMagic)]) != handshakeMagic {
		return fmt.Errorf("%q is not the beginning of a node's answer", answer[:len(handshakeMagic)])
	}
	theirs := versions{answer[answerVersions], answer[answerVersions+1]}
	if s := status(answer[answerStatus]); s != statusAccepted {
		return p.refused(s, theirs)
	}
	if v, ok := p.versions.common(theirs); !ok || v != answer[answerVersion] {
		return p.refused(statusVersion, theirs)
	}
	if secret == nil {
		return nil
	}
	if !hmac.Equal(answer[answerProof:], sign(secret, roleAccepts, h.raw, answer[:answerProof])) {
		return fmt.Errorf("%w: the node's proof is wrong", ErrSecret)
	}
	_, err = c.Write(sign(secret, roleDials, h.raw, answer[:answerProof]))
	return err
}

// refused returns the dialler's error for an answer.
func (p party) refused(s status, theirs versions) error {
	switch s {
	case statusVersion:
		return fmt.Errorf("%w: this side speaks %v, the node %v", ErrVersion, p.versions, theirs)
	case statusNeedsSecret:
		return fmt.Errorf("%w: the node requires one and this side has none: give both the same peer-secret-file", ErrSecret)
	case statusNoSecret:
		return fmt.Errorf("%w: this side has one and the node has none: give both the same peer-secret-file", ErrSecret)
	case statusWrongSecret:
		return fmt.Errorf("%w: the two do not share a secret: give both the same peer-secret-file", ErrSecret)
	case statusNotServed:
		return ErrNotServed
	case statusTooMany:
		return ErrTooMany
	}
	return fmt.Errorf("node refuses the connection, status %d", s)
}

// These errors are returned when a connection between nodes is refused.
var (
	// ErrSecret is returned if the two sides do not share a secret, or if only one of them
	// has any.
	ErrSecret = errors.New("peer secret")

	// ErrVersion is returned if the two sides have no version of the peer protocol in
	// common.
	ErrVersion = errors.New("no common version of the peer protocol")

	// ErrNotServed is returned if there is no listener for the kind and group.
	ErrNotServed = errors.New("the node does not serve this, or not yet")

	// ErrTooMany is returned if the listener has the maximum number of connections.
	ErrTooMany = errors.New("the node has too many connections")
)

// accept does the acceptor's part of a handshake. It calls serves, which reports whether
// there is room for the connection, after the dialler has shown that it knows a secret. A
// replayed hello shows that too. So only a nil error means that the dialler is the node
// that it claims to be.
func (p party) accept(c io.ReadWriter, serves func(*hello) status) (*hello, error) {
	h, err := readHello(c)
	if h == nil {
		return nil, err
	}
	answer := append(make([]byte, 0, answerSize), handshakeMagic...)
	version, ok := p.versions.common(h.versions)
	answer = append(answer, byte(statusAccepted), version, p.versions.lowest, p.versions.highest)
	answer = answer[:answerSize]
	refuse := func(s status, err error) (*hello, error) {
		answer[answerStatus] = byte(s)
		c.Write(answer) // refuse only sends a message
		return h, err
	}
	switch {
	case !ok:
		return refuse(statusVersion, fmt.Errorf("%w: this node speaks %v, the peer %v", ErrVersion, p.versions, h.versions))
	case err != nil:
		return h, err
	case len(p.secrets) > 0 && !h.secret:
		return refuse(statusNeedsSecret, fmt.Errorf("%w: this node requires one and the peer has none", ErrSecret))
	case len(p.secrets) == 0 && h.secret:
		return refuse(statusNoSecret, fmt.Errorf("%w: the peer has one and this node has none", ErrSecret))
	}
	secret := h.chosen(p.secrets)
	if secret == nil && h.secret {
		return refuse(statusWrongSecret, fmt.Errorf("%w: the two do not share a secret", ErrSecret))
	}
	switch s := serves(h); s {
	case statusAccepted:
	case statusTooMany:
		return refuse(s, ErrTooMany)
	default:
		return refuse(s, ErrNotServed)
	}
	if secret == nil {
		_, err := c.Write(answer)
		return h, err
	}
	rand.Read(answer[answerNonce:answerProof])
	copy(answer[answerProof:], sign(secret, roleAccepts, h.raw, answer[:answerProof]))
	if _, err := c.Write(answer); err != nil {
		return h, err
	}
	var proof [proofSize]byte
	if _, err := io.ReadFull(c, proof[:]); err != nil {
		return h, err
	}
	if !hmac.Equal(proof[:], sign(secret, roleDials, h.raw, answer[:answerProof])) {
		return h, fmt.Errorf("%w: the peer's proof is wrong", ErrSecret)
	}
	return h, nil
}
