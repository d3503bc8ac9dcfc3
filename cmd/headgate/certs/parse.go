package certs

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

var (
	errNoCertificate = errors.New("no certificate in the file")
	// errCut is the error for a file that somebody may be writing at this moment.
	errCut = errors.New("the file is cut or garbled")

	mark = regexp.MustCompile(`^-----(BEGIN|END) ([^-]+)-----\s*$`)
)

// parse returns the certificates of a PEM file. It returns either all certificates of the
// file or none. With half of a file, clients of the authorities in the other half could not
// connect, and no library would report it. Text between blocks is a comment, unless it
// looks like part of a block.
func parse(data []byte) (list []*x509.Certificate, err error) {
	var block []byte // the part of the block read so far
	var kind string
	var begin, n int
	lines := bytes.SplitAfter(data, []byte("\n"))
	for i, line := range lines {
		n = i + 1
		found := mark.FindSubmatch(line)
		switch marks := bytes.Contains(line, []byte("-----BEGIN")) || bytes.Contains(line, []byte("-----END")); {
		case kind == "" && bytes.HasPrefix(line, []byte("#")), !marks && kind == "" && !isRemains(line, i == len(lines)-1):
			continue
		case kind == "" && found != nil && string(found[1]) == "BEGIN":
			kind, begin, block = string(found[2]), n, append(block[:0], line...)
			continue
		case kind != "" && !marks:
			block = append(block, line...)
			continue
		case kind == "" || found == nil || string(found[1]) != "END" || string(found[2]) != kind:
			return nil, fmt.Errorf("line %d: %w", n, errCut)
		}
		one, rest := pem.Decode(append(block, line...))
		if one == nil || len(rest) > 0 {
			return nil, fmt.Errorf("the block at line %d: %w", begin, errCut)
		}
		switch {
		case kind == "CERTIFICATE":
			c, err := x509.ParseCertificate(one.Bytes)
			if err != nil {
				return nil, fmt.Errorf("the certificate at line %d: %w", begin, err)
			}
			list = append(list, c)
		case strings.Contains(kind, "CERTIFICATE"):
			return nil, fmt.Errorf("line %d: a %s is not a certificate that can be used: convert it (openssl x509)", begin, kind)
		}
		kind = ""
	}
	if kind != "" {
		return nil, fmt.Errorf("the block at line %d has no end: %w", begin, errCut)
	}
	if len(list) == 0 {
		return nil, errNoCertificate
	}
	return list, nil
}

// isRemains reports whether line, the last line of a file, may be the cut first line of a
// block.
func isRemains(line []byte, last bool) bool {
	line = bytes.TrimSpace(line)
	return last && len(line) > 0 && bytes.HasPrefix([]byte("-----BEGIN"), line)
}
