//go:build !linux

package server

import (
	"errors"
	"net"
	"syscall"
)

// loop does not exist on this system: every connection has goroutines of its
// own.
type loop struct{}

func (s *Server) startLoops() error { return nil }

func (s *Server) acceptOnLoops(net.Listener) (handled bool, err error) { return false, nil }

func (s *Server) stopLoops() {}

func (s *Server) killLoops() {}

func (s *Server) waitLoops() {}

// connectionGone reports whether an error of accept is about the connection, not the
// listener.
func connectionGone(err error) bool { return errors.Is(err, syscall.ECONNABORTED) }
