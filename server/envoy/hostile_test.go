package envoy_test

import (
	"bytes"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/envoy"
)

// peer is a client that writes frames.
type peer struct {
	net.Conn
	*http2.Framer
	head   []byte        // of a call
	closed chan struct{} // when the connection has ended
}

// newPeer connects, and reads what comes until the connection ends.
func newPeer(addr string) (*peer, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	p := &peer{Conn: c, Framer: http2.NewFramer(c, c), closed: make(chan struct{})}
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	e.SetMaxDynamicTableSize(0) // or a head could not be sent again
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", "/" + name + "/ShouldRateLimit"}, {":authority", "x"}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}) // into memory
	}
	p.head = b.Bytes()
	if _, err = io.WriteString(c, http2.ClientPreface); err == nil {
		err = p.WriteSettings()
	}
	go func() {
		_, _ = io.Copy(io.Discard, c)
		close(p.closed)
	}()
	return p, err
}

// call begins a call on a stream.
func (p *peer) call(stream uint32) error {
	return p.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: p.head, EndHeaders: true})
}

// half begins a call on a stream, whose request does not come whole.
func (p *peer) half(stream uint32) error {
	if err := p.call(stream); err != nil {
		return err
	}
	return p.WriteData(stream, false, []byte("\x00\x00\x03\xff\xff"))
}

// The memory of hostile clients is bounded, and another client is answered.
func TestHostileClients(t *testing.T) {
	const most = 100
	r := newRig(t, server.Config{}, envoy.Config{MaxClients: most})
	r.policy("edge", edge)
	_, err := r.ShouldRateLimit(patient(t), request("edge", []string{"free", "1"}))
	require.NoError(t, err)
	attacks := map[string]struct {
		clients int
		run     func(p *peer, stop <-chan struct{}) error
	}{
		"rapid reset": {2, func(p *peer, stop <-chan struct{}) error {
			for stream := uint32(1); ; stream += 2 {
				if err := p.call(stream); err != nil {
					return err
				}
				if err := p.WriteRSTStream(stream, http2.ErrCodeCancel); err != nil || stopped(stop) {
					return err
				}
			}
		}},
		"endless header": {2, func(p *peer, stop <-chan struct{}) error {
			if err := p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.head}); err != nil {
				return err
			}
			more := hpack.AppendHuffmanString(nil, "x")
			field := append([]byte{0x00, 0x80 | byte(len(more))}, more...)
			field = append(append(field, 0x7f, 0x81, 0x3f), strings.Repeat("y", 127+0x1f81)...)
			for !stopped(stop) {
				if err := p.WriteContinuation(1, false, field[:min(len(field), 16<<10)]); err != nil {
					return err
				}
			}
			return nil
		}},
		"settings": {2, func(p *peer, stop <-chan struct{}) error {
			for !stopped(stop) {
				if err := p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
					return err
				}
			}
			return nil
		}},
		"nothing": {most + 20, func(p *peer, stop <-chan struct{}) error {
			<-stop
			return nil
		}},
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for attack, a := range attacks {
		stop := make(chan struct{})
		var clients sync.WaitGroup
		for range a.clients {
			clients.Go(func() {
				for !stopped(stop) {
					p, err := newPeer(r.addr)
					if err != nil {
						time.Sleep(10 * time.Millisecond)
						continue
					}
					_ = a.run(p, stop) // an error: the server has hung up
					p.Close()
					time.Sleep(50 * time.Millisecond)
				}
			})
		}
		// One connection may be closed to make room, not again and again.
		answered, failed := 0, 0
		for end := time.Now().Add(time.Second / 2); time.Now().Before(end) || answered == 0; {
			if _, err := r.ShouldRateLimit(patient(t), request("edge", []string{"free", "1"})); err != nil {
				failed++
				require.Less(t, failed, 20, "%s: %v", attack, err)
				continue
			}
			answered++
		}
		runtime.ReadMemStats(&after)
		close(stop)
		clients.Wait()
		t.Logf("%s: %d calls answered, %d failed, %d MiB more", attack, answered, failed, (int64(after.HeapInuse)-int64(before.HeapInuse))>>20)
		require.Less(t, int64(after.HeapInuse)-int64(before.HeapInuse), int64(300<<20), attack)
	}
}

func stopped(stop <-chan struct{}) bool {
	select {
	case <-stop:
		return true
	default:
		return false
	}
}

// Beyond 2048 incomplete requests the connections with most of them are closed, and no more
// than needed. The other connections are answered.
func TestHalfRequestsMakeRoom(t *testing.T) {
	const hostile, streams = 26, 100
	r := newRig(t, server.Config{}, envoy.Config{})
	r.policy("edge", edge)
	begin := func() *peer {
		p, err := newPeer(r.addr)
		require.NoError(t, err)
		t.Cleanup(func() { p.Close() })
		return p
	}
	friend := begin()
	require.NoError(t, friend.half(1))
	var peers []*peer
	for range hostile {
		p := begin()
		peers = append(peers, p)
		for stream := uint32(1); stream < 2*streams && p.half(stream) == nil; stream += 2 {
		}
	}
	// 26 times 100 are 552 too many.
	closed := func() (n int) {
		for _, p := range peers {
			if stopped(p.closed) {
				n++
			}
		}
		return n
	}
	require.Eventually(t, func() bool { return closed() >= 5 }, 10*time.Second, 10*time.Millisecond)
	_, err := r.ShouldRateLimit(patient(t), request("edge", []string{"free", "1"}))
	require.NoError(t, err)
	require.LessOrEqual(t, closed(), 6)
	require.False(t, stopped(friend.closed))
}

// Calls without an end of their own are bounded, and their places are there again when
// they end; other calls are answered meanwhile.
func TestEndlessCallsAreBounded(t *testing.T) {
	const most, each = 256, 64
	r := newRig(t, server.Config{}, envoy.Config{})
	r.policy("edge", edge)
	watch := func(c *grpc.ClientConn) (grpc.ServerStreamingClient[grpc_health_v1.HealthCheckResponse], error) {
		w, err := grpc_health_v1.NewHealthClient(c).Watch(patient(t), &grpc_health_v1.HealthCheckRequest{})
		if err == nil {
			_, err = w.Recv()
		}
		return w, err
	}
	var conns []*grpc.ClientConn
	for range most / each {
		conns = append(conns, dial(t, r.addr))
		for range each {
			_, err := watch(conns[len(conns)-1])
			require.NoError(t, err)
		}
	}
	late := dial(t, r.addr)
	for range 3 { // those that are refused take no place
		_, err := watch(late)
		require.Equal(t, codes.ResourceExhausted, status.Code(err))
	}
	_, err := r.ShouldRateLimit(patient(t), request("edge", []string{"free", "1"}))
	require.NoError(t, err)
	_, err = grpc_health_v1.NewHealthClient(late).Check(patient(t), &grpc_health_v1.HealthCheckRequest{})
	require.NoError(t, err)
	require.NoError(t, conns[0].Close())
	require.Eventually(t, func() bool { _, err := watch(late); return err == nil }, 10*time.Second, 10*time.Millisecond)
}

// For one connection more than there may be, the one closes that has been silent for
// longest.
func TestConnectionsAreBounded(t *testing.T) {
	const most, more = 16, 10
	r := newRig(t, server.Config{}, envoy.Config{MaxClients: most})
	r.policy("edge", edge)
	closed := make(chan int, most)
	open := func(i int) {
		c, err := net.Dial("tcp", r.addr)
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		go func() {
			_, _ = io.Copy(io.Discard, c)
			closed <- i
		}()
	}
	for i := range most {
		open(i)
		time.Sleep(5 * time.Millisecond)
	}
	time.Sleep(1100 * time.Millisecond)
	for range more {
		open(most)
	}
	for range more {
		select {
		case i := <-closed:
			require.Less(t, i, more)
		case <-time.After(3 * time.Second):
			t.Fatal("all are open")
		}
	}
	_, err := r.ShouldRateLimit(patient(t), request("edge", []string{"free", "1"}))
	require.NoError(t, err)
}
