package config

import "errors"

// CheckPeerTLS reports a part of the files for TLS between nodes without the
// rest.
func CheckPeerTLS(cert, key, ca string) error {
	if set := cert != ""; (key != "") != set || (ca != "") != set {
		return errors.New("peer-tls-cert, peer-tls-key and peer-tls-ca need each other: only some are set")
	}
	return nil
}
