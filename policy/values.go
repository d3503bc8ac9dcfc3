package policy

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
)

// fewValues is the number of exact values up to which they are compared one by one.
const fewValues = 8

// values is the set of values of a condition or a list, of one type.
type values struct {
	exact    []string            // few of them
	index    map[string]struct{} // nil, or all of many
	patterns []pattern
	networks networks // of type ip
}

// newValues compiles texts for attributes of a type. After an error, failed is the
// index of the text.
func newValues(texts []string, t Type) (v *values, failed int, err error) {
	v = &values{}
	var prefixes []netip.Prefix
	for i, s := range texts {
		switch {
		case t&IP != 0:
			p, err := parseNetwork(s)
			if err != nil {
				return nil, i, err
			}
			prefixes = append(prefixes, p)
		case t&Secret != 0:
			if !isDigest([]byte(s)) {
				return nil, i, fmt.Errorf("%q: a secret is named by `~` and 32 hex digits, as RL.EXPLAIN prints it", Clip(s))
			}
			v.exact = append(v.exact, s)
		default:
			if t&Lower != 0 {
				s = string(appendLower(nil, []byte(s)))
			}
			if p, ok := parsePattern(s); ok {
				v.patterns = append(v.patterns, p)
			} else {
				v.exact = append(v.exact, p.pieces[0])
			}
		}
	}
	v.networks = newNetworks(prefixes)
	if len(v.exact) > fewValues {
		v.index = make(map[string]struct{}, len(v.exact))
		for _, s := range v.exact {
			v.index[s] = struct{}{}
		}
		v.exact = nil
	}
	return v, 0, nil
}

// has reports whether v contains the call's value of an attribute.
func (v *values) has(c *Call, attr int) bool {
	if !v.networks.empty() {
		return v.networks.has(c.addrs[attr])
	}
	return v.hasText(c.values[attr])
}

func (v *values) hasText(b []byte) bool {
	for _, s := range v.exact {
		if s == string(b) {
			return true
		}
	}
	if _, ok := v.index[string(b)]; ok {
		return true
	}
	for i := range v.patterns {
		if v.patterns[i].match(b) {
			return true
		}
	}
	return false
}

// pattern is a text with stars, each of which matches any bytes.
type pattern struct {
	// pieces are the texts before, between and after the stars.
	pieces []string
}

// parsePattern splits a text at its stars. It returns false for a text without stars; its
// one piece is then the text itself.
func parsePattern(s string) (pattern, bool) {
	if strings.IndexByte(s, '*') < 0 {
		return pattern{pieces: []string{s}}, false
	}
	var p pattern
	var piece []byte
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s) && s[i+1] == '*':
			piece = append(piece, '*')
			i++
		case s[i] != '*':
			piece = append(piece, s[i])
		case len(p.pieces) == 0 || len(piece) > 0:
			p.pieces = append(p.pieces, string(piece))
			piece = piece[:0]
		}
	}
	p.pieces = append(p.pieces, string(piece))
	return p, len(p.pieces) > 1
}

// match reports whether the pattern matches all of b. The first piece must be at the start
// of b and the last at the end. Each other piece matches at the first place where it is
// found.
func (p *pattern) match(b []byte) bool {
	between, ok := p.between(b)
	return ok && p.inner(between)
}

// between returns the part of b between the first piece and the last. It returns false
// unless b begins and ends with these.
func (p *pattern) between(b []byte) ([]byte, bool) {
	first, last := p.pieces[0], p.pieces[len(p.pieces)-1]
	if len(b) < len(first)+len(last) || string(b[:len(first)]) != first || string(b[len(b)-len(last):]) != last {
		return nil, false
	}
	return b[len(first) : len(b)-len(last)], true
}

// inner reports whether the part between the first piece and the last matches.
func (p *pattern) inner(b []byte) bool {
	for _, piece := range p.pieces[1 : len(p.pieces)-1] {
		i := indexString(b, piece)
		if i < 0 {
			return false
		}
		b = b[i+len(piece):]
	}
	return true
}

// indexString is bytes.Index for a string.
func indexString(b []byte, s string) int {
	return bytes.Index(b, viewOf(s))
}

// CoversText reports whether a value matches all that another value matches.
func CoversText(w, v string) bool {
	if w == v {
		return true
	}
	a, errA := parseNetwork(w)
	b, errB := parseNetwork(v)
	if errA == nil && errB == nil {
		return a.Bits() <= b.Bits() && a.Contains(b.Addr())
	}
	p, star := parsePattern(w)
	return star && strings.IndexByte(v, '*') < 0 && p.match([]byte(v))
}
