package config

import (
	"errors"
	"fmt"
	"net"
)

// CheckPeerAddress reports what is wrong with s as the address at which other
// nodes reach a node.
func CheckPeerAddress(s string) error {
	host, port, _ := net.SplitHostPort(s)
	if (address{text{new(string)}}).Set(s) != nil || everywhere(host) || port == "0" {
		return fmt.Errorf("peer address %q: want host:port, as other nodes reach it", s)
	}
	return nil
}

// CheckPeerTLS reports a part of the files for TLS between nodes without the
// rest.
func CheckPeerTLS(cert, key, ca string) error {
	if set := cert != ""; (key != "") != set || (ca != "") != set {
		return errors.New("peer-tls-cert, peer-tls-key and peer-tls-ca need each other: only some are set")
	}
	return nil
}
