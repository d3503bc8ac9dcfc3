package route

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Bounds of a pattern.
const (
	// MaxPattern is how long the text of a pattern may be, in bytes.
	MaxPattern = 512
	// MaxSegments is how many segments its path may have.
	MaxSegments = 32
	// MaxParams is how many of the segments may be names.
	MaxParams = 8
	// maxHost is the length of a host's name, and maxLabels how many labels a pattern's
	// host may have.
	maxHost   = 253
	maxLabels = 12
	maxMethod = 32
)

// Pattern says which requests it matches.
type Pattern struct {
	methods []string // nil: all
	host    string   // in lower case; "" for all hosts; without `*.` if below is set
	below   bool     // the pattern is for the hosts below host
	path    []segment
	rest    bool // the pattern is also for all paths below the path
	text    string
}

// segment is a literal, or has a name.
type segment struct{ literal, name string }

var (
	errPath  = errors.New("a path is missing, such as /v1/users/{id}: it begins with /")
	errHost  = errors.New("a host is a name such as api.example.com, or *.example.com for all names below example.com, without a port")
	errWords = errors.New("a pattern is methods (GET|POST), a space, a host and a path; methods and host may be left out")
)

// Parse reads a pattern.
func Parse(text string) (p Pattern, err error) {
	if len(text) > MaxPattern {
		return p, fmt.Errorf("a pattern may have at most %d bytes", MaxPattern)
	}
	p.text = text
	methods, place, found := strings.Cut(text, " ")
	if !found {
		methods, place = "", text
	} else if p.methods, err = parseMethods(methods); err != nil {
		return p, err
	}
	at := strings.IndexByte(place, '/')
	switch {
	case strings.IndexByte(place, ' ') >= 0:
		return p, errWords
	case at < 0:
		return p, errPath
	}
	if p.host, p.below, err = parseHost(place[:at]); err != nil {
		return p, err
	}
	return p, p.parsePath(place[at+1:])
}

// String returns the text of the pattern.
func (p *Pattern) String() string { return p.text }

// Params returns the names in the path, in order.
func (p *Pattern) Params() (names []string) {
	for _, s := range p.path {
		if s.name != "" {
			names = append(names, s.name)
		}
	}
	return names
}

func parseMethods(text string) (methods []string, err error) {
	for _, m := range strings.Split(text, "|") {
		switch {
		case m == "" || len(m) > maxMethod || strings.Trim(m, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_") != "":
			return nil, fmt.Errorf("%q is not a method such as GET, or GET|POST", m)
		case slices.Contains(methods, m):
			return nil, fmt.Errorf("the method %s is given twice", m)
		}
		methods = append(methods, m)
	}
	return methods, nil
}

func parseHost(text string) (host string, below bool, err error) {
	if text == "" {
		return "", false, nil
	}
	host, below = strings.CutPrefix(strings.ToLower(text), "*.")
	if len(host) > maxHost || strings.Count(host, ".") >= maxLabels {
		return "", false, errHost
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return "", false, errHost
		}
	}
	return host, below, nil
}

// parsePath reads the text after the first slash.
func (p *Pattern) parsePath(text string) error {
	if text == "" {
		return nil
	}
	texts := strings.Split(text, "/")
	if last := len(texts) - 1; texts[last] == "*" {
		p.rest, texts = true, texts[:last]
	}
	if len(texts) > MaxSegments {
		return fmt.Errorf("a path may have at most %d segments", MaxSegments)
	}
	var names []string
	for _, s := range texts {
		seg, err := parseSegment(s)
		if err != nil {
			return err
		}
		if seg.name != "" {
			if slices.Contains(names, seg.name) {
				return fmt.Errorf("the name {%s} is given twice", seg.name)
			}
			names = append(names, seg.name)
		}
		p.path = append(p.path, seg)
	}
	if len(names) > MaxParams {
		return fmt.Errorf("a path may have at most %d names", MaxParams)
	}
	return nil
}

func parseSegment(s string) (segment, error) {
	name, opens := strings.CutPrefix(s, "{")
	name, closes := strings.CutSuffix(name, "}")
	switch {
	case opens && closes:
		if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
			return segment{}, fmt.Errorf("{%s}: a name is a-z, 0-9 and _", name)
		}
		return segment{name: name}, nil
	case s == "":
		return segment{}, errors.New("a path must not have an empty segment or a slash at the end: to match all paths below /v1, write /v1/*")
	case s == "." || s == "..":
		return segment{}, fmt.Errorf("a path must not have the segment %s", s)
	case strings.ContainsAny(s, "{}*"):
		return segment{}, fmt.Errorf("%q: {name} must be a whole segment, and * the last segment", s)
	case strings.ContainsAny(s, "?#;"):
		return segment{}, fmt.Errorf("%q: a path must not have ?, # or ;", s)
	case strings.Contains(s, "%"):
		return segment{}, fmt.Errorf("%q: write characters as they are, not with %%", s)
	}
	return segment{literal: s}, nil
}

// relation says how the sets of requests of two patterns are related.
type relation uint8

const (
	equal    relation = iota
	within            // the first is a part of the second
	around            // the second is a part of the first
	crossing          // they share some, and each has others
	apart             // they share none
)

// both combines the relations of two parts of the patterns.
func (a relation) both(b relation) relation {
	switch {
	case a == apart || b == apart:
		return apart
	case a == equal || a == b:
		return b
	case b == equal:
		return a
	}
	return crossing
}

// comparePaths says how the paths of two patterns are related.
func (p *Pattern) comparePaths(q *Pattern) relation {
	r := equal
	n := min(len(p.path), len(q.path))
	for i := range n {
		a, b := p.path[i], q.path[i]
		switch {
		case a.name != "" && b.name != "":
		case a.name != "":
			r = r.both(around)
		case b.name != "":
			r = r.both(within)
		case a.literal != b.literal:
			return apart
		}
	}
	switch {
	case len(p.path) > n && !q.rest || len(q.path) > n && !p.rest:
		return apart
	case len(p.path) > n:
		return r.both(within)
	case len(q.path) > n:
		return r.both(around)
	case p.rest && !q.rest:
		return r.both(around)
	case q.rest && !p.rest:
		return r.both(within)
	}
	return r
}

// compareMethods says how two methods are related; "" is any method.
func compareMethods(a, b string) relation {
	switch {
	case a == b:
		return equal
	case a == "" || a == get && b == head:
		return around
	case b == "" || b == get && a == head:
		return within
	}
	return apart
}

// A GET includes HEAD.
const (
	get  = "GET"
	head = "HEAD"
)
