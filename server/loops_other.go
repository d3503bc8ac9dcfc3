//go:build !linux

package server

import (
	"errors"
	"net"
	"syscall"
)

// loop does not exist on this system: goroutines serve all connections.
type loop struct{}

func (s *Server) startLoops() error { return nil }

func (s *Server) acceptOnLoops(net.Listener, bool) (handled bool, err error) { return false, nil }

func (s *Server) stopLoops() {}

func (s *Server) killLoops() {}

func (s *Server) waitLoops() {}

// connectionGone reports whether an error of accept concerns the connection and not the
// listener.
func connectionGone(err error) bool { return errors.Is(err, syscall.ECONNABORTED) }
