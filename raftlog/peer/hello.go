package peer

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/headgate-io/headgate/raftlog/member"
)

// hello is what a dialler says about itself.
type hello struct {
	Purpose
	versions versions
	secret   bool
	node     string // the dialler's id; empty for an operator's tool
	raw      []byte // the bytes that were sent
}

// helloEnd is the end of a line in the Redis protocol and of a header in HTTP. A server of
// another protocol therefore takes the hello for a bad request and answers at once. So the
// dialler learns what it has reached.
const helloEnd = "\r\n\r\n"

// newHello returns a hello with a fresh nonce. It signs the hello with secret, unless
// secret is nil.
func newHello(v versions, p Purpose, node string, secret []byte) (*hello, error) {
	if len(node) > member.MaxNodeID || len(p.Cluster) > member.MaxRandomID || len(p.Data) > member.MaxRandomID {
		return nil, errors.New("node, cluster or data id is too long")
	}
	h := &hello{Purpose: p, versions: v, secret: secret != nil, node: node}
	b := append([]byte(handshakeMagic), v.lowest, v.highest, 0, 0, byte(p.Kind), 0)
	if h.secret {
		b[helloHead+helloFlags] = flagSecret
	}
	b = binary.BigEndian.AppendUint32(b, p.Group)
	b = append(b, make([]byte, nonceSize+hintSize)...)
	rand.Read(b[helloHead+helloNonce : helloHead+helloHint])
	for _, name := range []string{node, p.Cluster, p.Data} {
		b = append(append(b, byte(len(name))), name...)
	}
	b = append(b, helloEnd...)
	binary.BigEndian.PutUint16(b[helloHead-2:], uint16(len(b)-helloHead))
	h.raw = b
	if h.secret {
		copy(b[helloHead+helloHint:], h.hint(secret))
	}
	return h, nil
}

// hint returns the hint of a dialler with the given secret.
func (h *hello) hint(secret []byte) []byte {
	b := bytes.Clone(h.raw)
	clear(b[helloHead+helloHint : helloHead+helloNames])
	return sign(secret, roleHint, b)[:hintSize]
}

// chosen returns the secret that the dialler uses, or nil.
func (h *hello) chosen(secrets [][]byte) (secret []byte) {
	hint := h.raw[helloHead+helloHint : helloHead+helloNames]
	for _, s := range secrets {
		if hmac.Equal(hint, h.hint(s)) {
			secret = s
		}
	}
	return secret
}

// errNotPeer is returned for a connection whose first bytes are not those of a peer
// connection.
var errNotPeer = errors.New("not a peer connection")

// readHello reads a hello, and no byte more. If it has read the head, it returns the hello
// with the versions, even if it does not understand the rest.
func readHello(r io.Reader) (*hello, error) {
	var head [helloHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	if string(head[:len(handshakeMagic)]) != handshakeMagic {
		return nil, errNotPeer
	}
	h := &hello{versions: versions{head[4], head[5]}}
	length := int(binary.BigEndian.Uint16(head[6:]))
	if length > maxHello {
		return nil, fmt.Errorf("hello of %d bytes", length)
	}
	h.raw = make([]byte, helloHead+length)
	copy(h.raw, head[:])
	if _, err := io.ReadFull(r, h.raw[helloHead:]); err != nil {
		return nil, err
	}
	return h, h.parse(h.raw[helloHead:])
}

// Dialler returns the id of the node that has opened a connection, empty for an operator's
// tool. It reads nothing from r. It waits until the hello has come, and returns an error if
// something else comes. It is for a proxy between nodes: nothing proves that the id is true.
func Dialler(r *bufio.Reader) (node string, err error) {
	head, err := r.Peek(helloHead)
	if err != nil {
		return "", err
	}
	if string(head[:len(handshakeMagic)]) != handshakeMagic {
		return "", errNotPeer
	}
	all, err := r.Peek(helloHead + min(maxHello, int(binary.BigEndian.Uint16(head[6:]))))
	if err != nil {
		return "", err
	}
	h, err := readHello(bytes.NewReader(all))
	if err != nil {
		return "", err
	}
	return h.node, nil
}

var errHello = errors.New("hello cannot be read")

func (h *hello) parse(body []byte) error {
	if len(body) < helloNames {
		return errHello
	}
	h.Kind = Kind(body[helloKind])
	h.secret = body[helloFlags]&flagSecret != 0
	h.Group = binary.BigEndian.Uint32(body[helloGroup:])
	rest := body[helloNames:]
	for _, name := range []struct {
		into *string
		most int
	}{{&h.node, member.MaxNodeID}, {&h.Cluster, member.MaxRandomID}, {&h.Data, member.MaxRandomID}} {
		if len(rest) == 0 || int(rest[0]) > name.most || int(rest[0]) > len(rest)-1 {
			return errHello
		}
		*name.into = string(rest[1 : 1+rest[0]])
		rest = rest[1+rest[0]:]
	}
	if h.node != "" && member.CheckNodeID(h.node) != nil {
		return errHello // it goes into log lines
	}
	return nil
}

// route returns the route of the connection.
func (h *hello) route() route { return route{h.Kind, h.Group} }

// peer names the other end of c for its bounds: the node, or the host of a tool.
func (h *hello) peer(c net.Conn) string {
	if h.node != "" {
		return h.node
	}
	host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
	return "tools at " + host
}
