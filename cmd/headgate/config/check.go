package config

import (
	"errors"
	"fmt"
	"net"
)

// CheckPeerAddress returns an error if s cannot be the address at which other nodes reach a
// node.
func CheckPeerAddress(s string) error {
	host, port, _ := net.SplitHostPort(s)
	if (address{text{new(string)}}).Set(s) != nil || everywhere(host) || port == "0" {
		return fmt.Errorf("peer address %q: want host:port, as other nodes reach it", s)
	}
	return nil
}

// CheckPeerTLS returns an error if only a part of the files for TLS between nodes is set.
func CheckPeerTLS(cert, key, ca string) error {
	if set := cert != ""; (key != "") != set || (ca != "") != set {
		return errors.New("peer-tls-cert, peer-tls-key and peer-tls-ca need each other: only some are set")
	}
	return nil
}
