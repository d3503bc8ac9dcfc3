package peer

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"slices"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
)

// secretsOf returns the given secrets.
func secretsOf(secrets ...string) (out [][]byte) {
	for _, s := range secrets {
		out = append(out, []byte(s))
	}
	return out
}

// tape is a connection that notes what passes.
type tape struct {
	net.Conn
	sent, received bytes.Buffer
}

func (c *tape) Write(b []byte) (int, error) {
	c.sent.Write(b)
	return c.Conn.Write(b)
}

func (c *tape) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.received.Write(b[:n])
	return n, err
}

// shake has two parties shake hands, and returns what each says of it.
func shake(dialler, acceptor party) (wire *tape, h *hello, dialled, accepted error) {
	near, far := net.Pipe()
	wire = &tape{Conn: near}
	done := make(chan struct{})
	go func() {
		defer close(done)
		h, accepted = acceptor.accept(far, func(*hello) status { return statusAccepted })
		far.Close()
	}()
	dialled = dialler.dial(wire, Purpose{KindForward, 7, "a cluster", "data"}, "n1")
	near.Close()
	<-done
	return wire, h, dialled, accepted
}

func TestHandshake(t *testing.T) {
	const mine, other = "a secret of this test", "another one"
	for name, c := range map[string]struct {
		dialler, acceptor [][]byte
		dialled, accepted string // what the errors contain; empty for none
	}{
		"one secret":                {secretsOf(mine), secretsOf(mine), "", ""},
		"none":                      {nil, nil, "", ""},
		"the acceptor has the next": {secretsOf(mine), secretsOf(mine, other), "", ""},
		"and goes by it already":    {secretsOf(mine, other), secretsOf(other, mine), "", ""},
		"the dialler has the next":  {secretsOf(other, mine), secretsOf(mine, other), "", ""},
		"the dialler is too early":  {secretsOf(other, mine), secretsOf(mine), "the two do not share a secret", "the two do not share a secret"},
		"another secret":            {secretsOf(other), secretsOf(mine), "the two do not share a secret", "the two do not share a secret"},
		"only the acceptor's":       {nil, secretsOf(mine), "the node requires one and this side has none", "this node requires one and the peer has none"},
		"only the dialler's":        {secretsOf(mine), nil, "this side has one and the node has none", "the peer has one and this node has none"},
	} {
		t.Run(name, func(t *testing.T) {
			wire, h, dialled, accepted := shake(party{ownVersions, c.dialler}, party{ownVersions, c.acceptor})
			require.NotContains(t, wire.sent.String()+wire.received.String(), mine)
			if c.dialled == "" {
				require.NoError(t, dialled)
				require.NoError(t, accepted)
				require.Equal(t, []any{Purpose{KindForward, 7, "a cluster", "data"}, "n1"}, []any{h.Purpose, h.node})
				return
			}
			require.ErrorContains(t, dialled, c.dialled)
			require.ErrorContains(t, accepted, c.accepted)
			require.ErrorIs(t, dialled, ErrSecret)
			require.ErrorIs(t, accepted, ErrSecret)
		})
	}
}

// A recorded handshake opens no second connection, to the same node or back to
// the dialler.
func TestRecordedHandshakesAreRefused(t *testing.T) {
	us := party{ownVersions, secretsOf("a secret of this test")}
	wire, _, dialled, accepted := shake(us, us)
	require.NoError(t, dialled)
	require.NoError(t, accepted)
	recorded, proof := bytes.Clone(wire.sent.Bytes()[:wire.sent.Len()-proofSize]), wire.sent.Bytes()[wire.sent.Len()-proofSize:]

	replay := func(parts ...[]byte) error {
		near, far := net.Pipe()
		defer near.Close()
		refused := make(chan error)
		go func() {
			_, err := us.accept(far, func(*hello) status { return statusAccepted })
			far.Close()
			refused <- err
		}()
		for i, p := range parts {
			if i == 1 {
				io.ReadFull(near, make([]byte, answerSize))
			}
			near.Write(p)
		}
		return <-refused
	}
	require.ErrorIs(t, replay(recorded, proof), ErrSecret, "as it was")
	require.ErrorIs(t, replay(recorded, wire.received.Bytes()[answerProof:answerSize]), ErrSecret, "the acceptor's own proof")
	for at := range recorded[helloHead:] {
		changed := bytes.Clone(recorded)
		changed[helloHead+at] ^= 1
		require.Error(t, replay(changed, proof), "byte %d", at)
	}

	// A false node that repeats an acceptor's answer.
	near, far := net.Pipe()
	go func() {
		readHello(far)
		far.Write(wire.received.Bytes())
	}()
	require.ErrorIs(t, us.dial(near, Purpose{}, ""), ErrSecret)
	// And one without a secret, which says that none is needed.
	near, far = net.Pipe()
	go func() {
		readHello(far)
		far.Write(append([]byte(handshakeMagic), append([]byte{byte(statusAccepted), protocolHighest, protocolLowest, protocolHighest}, make([]byte, nonceSize+proofSize)...)...))
	}()
	require.ErrorIs(t, us.dial(near, Purpose{}, ""), ErrSecret)
}

// Two sides speak the highest version that both know.
func TestVersionIsNegotiated(t *testing.T) {
	for name, c := range map[string]struct {
		dialler, acceptor versions
		version           byte // 0: refused
	}{
		"the same":        {versions{3, 3}, versions{3, 3}, 3},
		"a newer dialler": {versions{3, 5}, versions{2, 4}, 4},
		"an older one":    {versions{1, 3}, versions{2, 9}, 3},
		"too new":         {versions{5, 6}, versions{3, 4}, 0},
		"too old":         {versions{1, 2}, versions{3, 4}, 0},
		"an empty range":  {versions{4, 3}, versions{3, 4}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			secrets := secretsOf("a secret of this test")
			wire, _, dialled, accepted := shake(party{c.dialler, secrets}, party{c.acceptor, secrets})
			if c.version > 0 {
				require.NoError(t, dialled)
				require.NoError(t, accepted)
				require.Equal(t, c.version, wire.received.Bytes()[answerVersion])
				return
			}
			for _, err := range []error{dialled, accepted} {
				require.ErrorIs(t, err, ErrVersion)
				require.ErrorContains(t, err, c.dialler.String())
				require.ErrorContains(t, err, c.acceptor.String())
			}
		})
	}
}

// A hello of a later version may be longer; what is added is proved with the
// rest.
func TestHelloMayGrow(t *testing.T) {
	us := party{ownVersions, secretsOf("a secret of this test")}
	h, err := newHello(ownVersions, Purpose{KindRaft, 1, "c", ""}, "n1", nil)
	require.NoError(t, err)
	h.raw = append(h.raw, "something new"...)
	h.raw[helloHead-1] += byte(len("something new"))
	h.raw[helloHead+helloFlags] |= flagSecret | 0x80
	copy(h.raw[helloHead+helloHint:], h.hint(us.secrets[0]))
	near, far := net.Pipe()
	defer near.Close()
	accepted := make(chan error)
	go func() {
		_, err := us.accept(far, func(*hello) status { return statusAccepted })
		accepted <- err
	}()
	near.Write(h.raw)
	answer := make([]byte, answerSize)
	_, err = io.ReadFull(near, answer)
	require.NoError(t, err)
	near.Write(sign(us.secrets[0], roleDials, h.raw, answer[:answerProof]))
	require.NoError(t, <-accepted)
}

// A peer of another build is refused by name on both sides of a real
// connection.
func TestPeersOfOtherVersions(t *testing.T) {
	m := testMux(t)
	l, err := m.Listen(KindForward, 0, nil)
	require.NoError(t, err)
	dial := func(v versions) ([]byte, net.Conn) {
		c, err := net.Dial("tcp", m.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		c.Write(testHello(t, v, KindForward, 0, nil))
		answer := make([]byte, answerSize)
		c.SetReadDeadline(time.Now().Add(patience))
		_, err = io.ReadFull(c, answer)
		require.NoError(t, err)
		return answer, c
	}
	answer, c := dial(versions{protocolHighest + 1, protocolHighest + 2})
	require.Equal(t, []byte{byte(statusVersion), protocolLowest, protocolHighest}, []byte{answer[answerStatus], answer[answerVersions], answer[answerVersions+1]})
	closed(t, c)
	answer, _ = dial(versions{protocolLowest - 1, protocolHighest + 2})
	require.Equal(t, []byte{byte(statusAccepted), protocolHighest}, []byte{answer[answerStatus], answer[answerVersion]})
	_, err = l.Accept()
	require.NoError(t, err)

	// A node of tomorrow that this one dials.
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	go func() {
		c, err := ln.Accept()
		if err == nil {
			party{versions{protocolHighest + 1, protocolHighest + 9}, nil}.accept(c, func(*hello) status { return statusAccepted })
			c.Close()
		}
	}()
	_, err = m.Dial(t.Context(), Purpose{Kind: KindControl}, ln.Addr().String())
	require.ErrorIs(t, err, ErrVersion)
	require.ErrorContains(t, err, "this side speaks 3, the node 4 to 12")
}

func TestDialEndsWithItsContext(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0") // silent
	require.NoError(t, err)
	defer ln.Close()
	m := testMux(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	_, err = m.Dial(ctx, Purpose{Kind: KindControl}, ln.Addr().String())
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(begin), HandshakeTimeout/2)
}

// pair is what an acceptor reads and, separately, what it writes.
type pair struct {
	io.Reader
	io.Writer
}

// However a hello is cut or spelled, it is read the same, or refused. No
// dialler gets in without the secret, and nothing beyond the hello is read.
func FuzzHello(f *testing.F) {
	for _, secret := range [][]byte{nil, []byte("a secret of this test")} {
		h, err := newHello(ownVersions, Purpose{KindControl, 9, "cluster", "d"}, "n1", secret)
		require.NoError(f, err)
		f.Add(append(slices.Clone(h.raw), make([]byte, proofSize+5)...))
	}
	f.Add([]byte("HGP\xff\x03\x03\x00\x00"))
	f.Add([]byte("HGP\x02\x03\x00"))
	f.Fuzz(func(t *testing.T, in []byte) {
		all := bytes.NewReader(in)
		h, err := readHello(all)
		again, errAgain := readHello(iotest.OneByteReader(bytes.NewReader(in)))
		require.Equal(t, err == nil, errAgain == nil)
		if err == nil {
			require.Equal(t, h, again)
			require.Equal(t, in, append(slices.Clone(h.raw), in[len(in)-all.Len():]...))
			require.LessOrEqual(t, len(h.raw), helloHead+maxHello)
		}
		proxied := bufio.NewReader(iotest.OneByteReader(bytes.NewReader(in)))
		node, errDialler := Dialler(proxied)
		require.Equal(t, err == nil, errDialler == nil)
		if err == nil {
			require.Equal(t, h.node, node)
		}
		passed, err := io.ReadAll(proxied)
		require.NoError(t, err)
		require.Equal(t, len(in), len(passed), "a proxy passes on all of it")
		guarded := party{ownVersions, secretsOf("a secret that nobody knows")}
		var answer bytes.Buffer
		_, err = guarded.accept(pair{bytes.NewReader(in), &answer}, func(*hello) status { return statusAccepted })
		require.Error(t, err)
		require.LessOrEqual(t, answer.Len(), answerSize)
		if answer.Len() > 0 {
			require.NotEqual(t, byte(statusAccepted), answer.Bytes()[answerStatus])
		}
	})
}

// An answer, whatever it is, makes a dialler with a secret go on only if it is
// proved.
func FuzzAnswer(f *testing.F) {
	f.Add(append(append([]byte(handshakeMagic), 0, 3, 3, 3), make([]byte, nonceSize+proofSize)...))
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		us := party{ownVersions, secretsOf("a secret that nobody knows")}
		require.Error(t, us.dial(pair{bytes.NewReader(in), io.Discard}, Purpose{Kind: KindRaft}, "n1"))
	})
}
