package cluster

import (
	"io"
	"net"
	"sync"
	"time"

	"github.com/headgate-io/headgate/internal/linkfault"
)

// front is the address that a node advertises to its peers. It sends each connection through the proxy of the link that
// it belongs to.
type front struct {
	net.Listener
	node  *Node
	peers map[int]*Node            // by index
	links map[int]*linkfault.Proxy // by the index of the node that dials
	wg    sync.WaitGroup

	// mu guards conns, links and peers.
	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
}

func newFront(n *Node) (*front, error) {
	ln, err := net.Listen("tcp", host()+":0")
	if err != nil {
		return nil, err
	}
	f := &front{
		Listener: ln, node: n,
		peers: make(map[int]*Node), links: make(map[int]*linkfault.Proxy), conns: make(map[net.Conn]struct{}),
	}
	f.wg.Go(f.accept)
	return f, nil
}

func (f *front) Addr() string { return f.Listener.Addr().String() }

// link makes the link from another node.
func (f *front) link(from *Node) error {
	p, err := linkfault.New("127.0.0.1:0", f.node.Peer)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.peers[from.Index], f.links[from.Index] = from, p
	return nil
}

func (f *front) Close() {
	f.Listener.Close()
	f.mu.Lock()
	f.closed = true
	for c := range f.conns {
		c.Close()
	}
	links := f.links
	f.mu.Unlock()
	for _, p := range links {
		p.Close()
	}
	f.wg.Wait()
}

func (f *front) accept() {
	for {
		c, err := f.Accept()
		if err != nil {
			return
		}
		f.wg.Go(func() { f.forward(c) })
	}
}

// forward copies both directions until either ends.
func (f *front) forward(c net.Conn) {
	defer c.Close()
	s, err := net.DialTimeout("tcp", f.route(c), time.Second)
	if err != nil {
		return
	}
	defer s.Close()
	f.mu.Lock()
	closed := f.closed
	f.conns[c], f.conns[s] = struct{}{}, struct{}{}
	f.mu.Unlock()
	if !closed {
		var wg sync.WaitGroup
		pipe := func(dst, src net.Conn) {
			io.Copy(dst, src) // in the kernel, by splice
			dst.Close()
			src.Close()
		}
		wg.Go(func() { pipe(s, c) })
		wg.Go(func() { pipe(c, s) })
		wg.Wait()
	}
	f.mu.Lock()
	delete(f.conns, c)
	delete(f.conns, s)
	f.mu.Unlock()
}

// route returns the address of the link's proxy, or, for the node itself and for strangers, that of the node.
func (f *front) route(c net.Conn) string {
	inode, err := socketInode(c.RemoteAddr().(*net.TCPAddr), c.LocalAddr().(*net.TCPAddr))
	if err != nil {
		return f.node.Peer // it has gone already
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, n := range f.peers {
		if holds(n.PID(), inode) {
			return f.links[i].Addr()
		}
	}
	return f.node.Peer
}
