package server

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// startLoops starts the event loops.
func (s *Server) startLoops() error {
	for range s.cfg.IOThreads {
		lp, err := s.newLoop()
		if err != nil {
			s.stopLoops()
			return err
		}
		lp.first = len(s.loops) == 0
		s.loops = append(s.loops, lp)
		go lp.run()
	}
	return nil
}

// acceptOnLoops serves ln on the event loops if it is plain TCP. moves is as in conn.
func (s *Server) acceptOnLoops(ln net.Listener, moves bool) (handled bool, err error) {
	tcp, ok := ln.(*net.TCPListener)
	if !ok {
		return false, nil
	}
	return true, s.acceptRaw(tcp, moves)
}

func (s *Server) stopLoops() {
	for _, lp := range s.loops {
		lp.lane.post(nil, lp.stop)
	}
}

func (s *Server) killLoops() {
	for _, lp := range s.loops {
		lp.lane.post(nil, lp.kill)
	}
}

func (s *Server) waitLoops() {
	for _, lp := range s.loops {
		<-lp.done
	}
}

// connectionGone reports whether an error of accept concerns the connection and not the
// listener.
func connectionGone(err error) bool {
	return errors.Is(err, unix.EINTR) || errors.Is(err, unix.ECONNABORTED) || errors.Is(err, unix.EPROTO)
}
