package route

import (
	"fmt"
	"slices"
	"strings"
)

const (
	// MaxPatterns is the most patterns that a table may have. A pattern counts once for
	// each of its methods.
	MaxPatterns = 1000
	// maxSteps bounds how many nodes a look-up of a path visits.
	maxSteps = 256
)

// Table finds the pattern of a request. It is immutable.
type Table struct {
	patterns []Pattern
	hosts    map[string]*node
	below    map[string]*node // patterns for hosts with a star, by the text after the star
	labels   []int            // numbers of labels in below, largest first
	all      *node            // patterns for all hosts, or nil
}

// node has the patterns whose paths begin in the same way.
type node struct {
	literals map[string]*node
	longest  int // of literals, in bytes
	named    *node
	here     leaf // patterns that end here
	rest     leaf // patterns that end here with /*
	cost     int  // see steps
}

// leaf has the patterns of one path, by method.
type leaf []claim

type claim struct {
	method  string // "" for any
	pattern int
}

// Found is the pattern of a request.
type Found struct {
	// Pattern is the index of the pattern.
	Pattern int
	params  [MaxParams]string
}

// Param returns the part of the path that matched the i-th name of the pattern.
func (f *Found) Param(i int) string { return f.params[i] }

// Conflict is the error of a pattern that cannot be in the table.
type Conflict struct {
	// Pattern is the index of the refused pattern.
	Pattern int
	Text    string
}

func (c *Conflict) Error() string { return c.Text }

// New returns a table of patterns. If fold is set, upper and lower case in paths are the
// same. The error is a *Conflict.
func New(patterns []Pattern, fold bool) (*Table, error) {
	t := &Table{patterns: patterns, hosts: map[string]*node{}, below: map[string]*node{}}
	ones := make(map[string][]one)
	count := 0
	for i := range patterns {
		p := &patterns[i]
		if fold {
			p.fold()
		}
		methods := p.methods
		if methods == nil {
			methods = []string{""}
		}
		if count += len(methods); count > MaxPatterns {
			return nil, &Conflict{i, fmt.Sprintf("there may be at most %d patterns; a pattern with several methods counts as several", MaxPatterns)}
		}
		root := t.root(p)
		host := p.hostText()
		for _, m := range methods {
			o := one{p, m}
			for _, other := range ones[host] {
				if text := o.clash(other); text != "" {
					return nil, &Conflict{i, text}
				}
			}
			ones[host] = append(ones[host], o)
			root.add(p, m, i)
		}
	}
	for i := range patterns {
		if root := t.root(&patterns[i]); root.cost == 0 && root.steps() > maxSteps {
			return nil, &Conflict{i, "too many patterns of this host differ only in which of their segments have names: a look-up would take too long"}
		}
	}
	slices.Sort(t.labels)
	t.labels = slices.Compact(t.labels)
	slices.Reverse(t.labels)
	return t, nil
}

// one is a pattern with one of its methods.
type one struct {
	*Pattern
	method string
}

// clash says why two patterns of one host cannot be in one table, or returns "".
func (o one) clash(other one) string {
	switch compareMethods(o.method, other.method).both(o.comparePaths(other.Pattern)) {
	case equal:
		return fmt.Sprintf("is for the same requests as %q", other.text)
	case crossing:
		return fmt.Sprintf("and %q match some of the same requests, and neither is more specific", other.text)
	}
	return ""
}

func (p *Pattern) hostText() string {
	if p.below {
		return "*." + p.host
	}
	return p.host
}

// fold makes the literals of the path lower case.
func (p *Pattern) fold() {
	p.path = slices.Clone(p.path)
	for i := range p.path {
		p.path[i].literal = lower(p.path[i].literal)
	}
}

// lower makes ASCII lower case, as Clean does.
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
}

// root returns the node of a pattern's host.
func (t *Table) root(p *Pattern) *node {
	if p.host == "" {
		if t.all == nil {
			t.all = &node{}
		}
		return t.all
	}
	hosts := t.hosts
	if p.below {
		hosts = t.below
		t.labels = append(t.labels, strings.Count(p.host, ".")+1)
	}
	if hosts[p.host] == nil {
		hosts[p.host] = &node{}
	}
	return hosts[p.host]
}

func (n *node) add(p *Pattern, method string, pattern int) {
	for _, s := range p.path {
		next := &n.named
		if s.name == "" {
			if n.literals == nil {
				n.literals = map[string]*node{}
			}
			child := n.literals[s.literal]
			next = &child
			if child == nil {
				child = &node{}
				n.literals[s.literal] = child
				n.longest = max(n.longest, len(s.literal))
			}
		} else if n.named == nil {
			n.named = &node{}
		}
		n = *next
	}
	to := &n.here
	if p.rest {
		to = &n.rest
	}
	*to = append(*to, claim{method, pattern})
}

// steps returns how many nodes a look-up visits at most, and sets cost to that number.
func (n *node) steps() int {
	most := 0
	for _, child := range n.literals {
		most = max(most, child.steps())
	}
	if n.named != nil {
		most += n.named.steps()
	}
	n.cost = 1 + most
	return n.cost
}

// Match finds the most specific pattern that matches a request. host and path must be in
// canonical spelling: see Host and Clean. The host decides first. An exact host goes
// before a host with `*.`, a longer host with `*.` (more labels) before a shorter one,
// and every host before a pattern without a host. Then the path decides, segment by
// segment: literal text goes before a name, and a name before `/*`. Last, a named method
// goes before any method. Match returns false if no pattern matches.
func (t *Table) Match(method, host, path string, found *Found) bool {
	path = path[1:]
	if n := t.hosts[host]; n != nil && n.match(method, path, 0, found) {
		return true
	}
	from := len(host) // of the last labels
	tail := 0         // how many they are
	var starts [maxLabels + 1]int
	for tail < len(starts)-1 && from > 0 {
		from = strings.LastIndexByte(host[:from], '.')
		tail++
		starts[tail] = from + 1
	}
	for _, n := range t.labels {
		if n > tail || starts[n] < 2 { // nothing is left for the star
			continue
		}
		if n := t.below[host[starts[n]:]]; n != nil && n.match(method, path, 0, found) {
			return true
		}
	}
	return t.all != nil && t.all.match(method, path, 0, found)
}

// match looks a path up, without its first slash. The node comes after the first names
// names.
func (n *node) match(method, path string, names int, found *Found) bool {
	if path == "" {
		if n.here.claimed(method, found) {
			return true
		}
		return n.rest.claimed(method, found)
	}
	segment, rest, _ := strings.Cut(path, "/")
	if len(segment) <= n.longest {
		if child := n.literals[segment]; child != nil && child.match(method, rest, names, found) {
			return true
		}
	}
	if n.named != nil && n.named.match(method, rest, names+1, found) {
		found.params[names] = segment
		return true
	}
	return n.rest.claimed(method, found)
}

// claimed finds the pattern of a method.
func (l leaf) claimed(method string, found *Found) bool {
	best := -1
	for i := range l {
		switch l[i].method {
		case method:
			found.Pattern = l[i].pattern
			return true
		case "":
			if best < 0 {
				best = i
			}
		case get:
			if method == head {
				best = i
			}
		}
	}
	if best < 0 {
		return false
	}
	found.Pattern = l[best].pattern
	return true
}

// Pattern returns a pattern of the table.
func (t *Table) Pattern(i int) *Pattern { return &t.patterns[i] }
