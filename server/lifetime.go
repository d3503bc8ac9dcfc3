package server

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// lifetime holds the listeners and streams that a server serves until Shutdown.
type lifetime struct {
	endMu     sync.Mutex
	ended     bool                  // guarded by endMu
	listeners map[net.Listener]bool // guarded by endMu
	streams   map[*stream]bool      // guarded by endMu
	serving   sync.WaitGroup        // calls of Serve
	streamsWG sync.WaitGroup
	end       chan struct{} // closed when Shutdown begins
	ending    context.Context
	cancel    context.CancelFunc // ends the context ending
}

// open prepares l.
func (l *lifetime) open() {
	l.listeners, l.streams = make(map[net.Listener]bool), make(map[*stream]bool)
	l.end = make(chan struct{})
	l.ending, l.cancel = context.WithCancel(context.Background())
}

// Serve accepts plain connections from ln until Shutdown, and then returns ErrClosed. On
// Linux, the event loops serve TCP connections. Goroutines serve all other connections.
func (s *Server) Serve(ln net.Listener) error {
	return s.serve(ln, func() error {
		if handled, err := s.acceptOnLoops(ln, false); handled {
			return err
		}
		return s.acceptStreams(ln, false)
	})
}

// ServeStreams accepts connections from ln, such as a TLS listener's, until Shutdown, and
// then returns ErrClosed. Each connection has goroutines of its own.
func (s *Server) ServeStreams(ln net.Listener) error {
	return s.serve(ln, func() error { return s.acceptStreams(ln, false) })
}

// ServeCluster is Serve for the cluster door: the port for clients of Redis Cluster. To
// them, a node that does not decide a command answers MOVED. Clients of the other ports get
// the leader's answer instead, so they may use any node.
func (s *Server) ServeCluster(ln net.Listener) error {
	return s.serve(ln, func() error {
		if handled, err := s.acceptOnLoops(ln, true); handled {
			return err
		}
		return s.acceptStreams(ln, true)
	})
}

func (s *Server) serve(ln net.Listener, accept func() error) error {
	s.endMu.Lock()
	if s.ended {
		s.endMu.Unlock()
		ln.Close()
		return ErrClosed
	}
	s.listeners[ln] = true
	s.serving.Add(1)
	defer s.serving.Done()
	s.endMu.Unlock()
	err := accept()
	s.endMu.Lock()
	delete(s.listeners, ln)
	ended := s.ended
	s.endMu.Unlock()
	if ended {
		return ErrClosed
	}
	ln.Close()
	return fmt.Errorf("accept: %w", err)
}

func (s *Server) addStream(st *stream) bool {
	s.endMu.Lock()
	defer s.endMu.Unlock()
	s.streams[st] = true
	return !s.ended
}

func (s *Server) removeStream(st *stream) {
	s.endMu.Lock()
	defer s.endMu.Unlock()
	delete(s.streams, st)
}

// Shutdown ends the server. It accepts no more connections, lets each connection finish the
// commands that it has received, and closes it when its replies are written. If ctx is done
// first, Shutdown closes the remaining connections at once and returns ctx's error. It then
// waits abandonAfter for commands that do not end. The goroutines of such commands run
// until the process ends.
func (s *Server) Shutdown(ctx context.Context) error {
	s.endMu.Lock()
	if s.ended {
		s.endMu.Unlock()
		return ErrClosed
	}
	s.ended = true
	close(s.end)
	s.cancel()
	for ln := range s.listeners {
		ln.Close()
	}
	s.endMu.Unlock()
	ended := make(chan error, 1)
	go func() { ended <- s.finish(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(abandonAfter):
		return fmt.Errorf("%w: a command that has run for %v is abandoned", ctx.Err(), s.Busy().Round(time.Millisecond))
	}
}

// abandonAfter is how long Shutdown waits for the commands that it has cut off.
const abandonAfter = time.Second

// finish is the part of Shutdown that waits.
func (s *Server) finish(ctx context.Context) error {
	defer close(s.beat.stop)
	// Wait first: an acceptor must not pass a connection to a loop that has stopped.
	s.serving.Wait()
	s.unpause()
	s.eachStream((*stream).stop)
	s.stopLoops()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.streamsWG.Wait()
		s.waitLoops()
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = ctx.Err()
		s.eachStream((*stream).abort)
		s.killLoops()
		<-done
	}
	if e := s.caller.close(ctx); err == nil {
		err = e
	}
	s.workers.close(ctx)
	s.scripts.Close()
	s.others.close()
	s.closePartitions()
	return err
}

// eachStream calls fn with every stream. It does not hold the lock during the calls.
func (s *Server) eachStream(fn func(*stream)) {
	s.endMu.Lock()
	all := make([]*stream, 0, len(s.streams))
	for st := range s.streams {
		all = append(all, st)
	}
	s.endMu.Unlock()
	for _, st := range all {
		fn(st)
	}
}
