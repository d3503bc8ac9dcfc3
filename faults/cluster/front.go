package cluster

import (
	"bufio"
	"io"
	"maps"
	"net"
	"sync"
	"time"

	"github.com/headgate-io/headgate/internal/linkfault"
	"github.com/headgate-io/headgate/raftlog/peer"
)

// front is the address that a node advertises to its peers. It sends each connection through the proxy of the link that
// it belongs to.
type front struct {
	net.Listener
	node    *Node
	sockets *sockets                 // of all nodes
	peers   map[int]*Node            // by index
	links   map[int]*linkfault.Proxy // by the index of the node that dials
	wg      sync.WaitGroup

	// mu guards conns, links and peers.
	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
}

func newFront(n *Node, known *sockets) (*front, error) {
	ln, err := net.Listen("tcp", host()+":0")
	if err != nil {
		return nil, err
	}
	f := &front{
		Listener: ln, node: n, sockets: known,
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
	if !f.open(c) {
		return
	}
	defer f.shut(c)
	in := bufio.NewReader(c)
	s, err := net.DialTimeout("tcp", f.route(c, in), time.Second)
	if err != nil || !f.open(s) {
		return
	}
	defer f.shut(s)
	var wg sync.WaitGroup
	pipe := func(dst net.Conn, src io.Reader) {
		io.Copy(dst, src) // in the kernel, by splice
		c.Close()
		s.Close()
	}
	wg.Go(func() { pipe(s, in) })
	wg.Go(func() { pipe(c, s) })
	wg.Wait()
}

// open has Close close a connection. It closes the connection and returns false after Close.
func (f *front) open(c net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		c.Close()
		return false
	}
	f.conns[c] = struct{}{}
	return true
}

func (f *front) shut(c net.Conn) {
	c.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, c)
}

// route returns the address of the link's proxy, or, for the node itself and for strangers, that of the node. Nodes say
// who they are, in clear text or else in TLS. Then the runner looks who has the socket.
func (f *front) route(c net.Conn, in *bufio.Reader) string {
	f.mu.Lock()
	peers := maps.Clone(f.peers)
	f.mu.Unlock()
	dials := func(*Node) bool { return false }
	if name, err := peer.Dialler(in); err == nil {
		dials = func(n *Node) bool { return n.Name == name }
	} else if inode, err := socketInode(c.RemoteAddr().(*net.TCPAddr), c.LocalAddr().(*net.TCPAddr)); err == nil {
		owner := f.sockets.owner(inode, func() []int {
			pids := []int{f.node.PID()}
			for _, n := range peers {
				pids = append(pids, n.PID())
			}
			return pids
		})
		dials = func(n *Node) bool { return owner != 0 && n.PID() == owner }
	}
	for i, n := range peers {
		if dials(n) {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.links[i].Addr()
		}
	}
	return f.node.Peer
}
