package policy

import (
	"bytes"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// # Files in pieces
//
// The tree that the parser of YAML makes takes some 25 times the memory of its text.
// So a file is cut between its policies, lists and sets of routes, and one piece is
// read after the other. Each piece is a file by itself: head makes it one again, and
// tail the one before it.

// pieceBytes is how much text a piece has at least, but for the last.
const pieceBytes = 64 << 10

// cut is where a piece begins.
type cut struct {
	at         int
	head, tail string
	// line and column, from 0, are those of at.
	line, column int
}

// cutter finds where a file can be cut. What it does not understand stays in one
// piece, and is right or wrong there.
type cutter struct {
	least int // how many bytes a piece has before the next may begin
	cuts  []cut
	// top is where the lines of the file's keys begin, -1 before the first; inFlow is
	// set if the file is in brackets.
	top    int
	inFlow bool
	// section is the key of what is mapped to names, "" elsewhere. entries is where
	// the lines of its names begin, -1 before the first, and depth how many brackets
	// are open around them.
	section string
	entries int
	depth   int
}

// sections are the keys of a file below which there are names.
var sections = []string{"policies", "lists", "routes"}

// sectionAt returns the section whose key a text begins with, or "".
func sectionAt(text []byte) string {
	for _, name := range sections {
		for _, quote := range []string{"", `"`, "'"} {
			rest, ok := bytes.CutPrefix(text, []byte(quote+name+quote))
			if ok && bytes.HasPrefix(bytes.TrimLeft(rest, " "), []byte(":")) {
				return name
			}
		}
	}
	return ""
}

// begins notes the begin of a token outside of brackets.
func (c *cutter) begins(s *scanner) {
	column := s.i - s.from
	b := s.text[s.i]
	word := b == '"' || b == '\'' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9'
	switch {
	case !word || strings.Trim(string(s.text[s.from:s.i]), " ") != "":
	case c.top < 0 || column == c.top:
		c.top, c.section, c.entries, c.depth = column, sectionAt(s.text[s.i:]), -1, 0
	case c.section == "":
	case c.entries < 0:
		c.entries = column
	case column == c.entries:
		c.cut(s, s.from, strings.Repeat(" ", c.top)+c.section+":\n", "")
	}
}

// beginsInFlow notes the begin of a token within brackets.
func (c *cutter) beginsInFlow(s *scanner) {
	if c.inFlow && s.depth == 1 {
		if name := sectionAt(s.text[s.i:]); name != "" {
			c.section, c.depth = name, 0
		}
	}
}

// bracket notes a bracket or a comma, which is behind s.i by now.
func (c *cutter) bracket(s *scanner, b byte) {
	around := 1 // brackets around names
	if c.inFlow {
		around = 2
	}
	switch {
	case b == '{' && c.top < 0:
		c.top, c.inFlow = 0, true
	case b == '{' && s.depth == around && c.section != "" && c.entries < 0:
		c.depth = around
	case c.depth == 0:
	case s.depth < c.depth:
		c.section, c.depth = "", 0
	case b != ',' || s.depth != c.depth:
	case c.inFlow:
		c.cut(s, s.i, "{"+c.section+": {", "}}")
	default:
		c.cut(s, s.i, c.section+": {", "}")
	}
}

// cut begins a piece, if the one before it has enough.
func (c *cutter) cut(s *scanner, at int, head, tail string) {
	var last cut
	if n := len(c.cuts); n > 0 {
		last = c.cuts[n-1]
	}
	if at-last.at < c.least {
		return
	}
	from := s.from
	column := 0
	if last.line == s.line && last.at > from { // of a long line no part is counted twice
		from, column = last.at, last.column
	}
	c.cuts = append(c.cuts, cut{at, head, tail, s.line, column + utf8.RuneCount(s.text[from:at])})
	s.tokens = 0
}

// piece is a part of a text, which is a text by itself.
type piece struct {
	text       []byte
	head, tail string
	section    string // whose key is in head
	// line is what is added to lines, and column to columns of the first line.
	line, column int
}

// pieces returns the pieces of a text.
func pieces(text []byte, cuts []cut) []piece {
	all := make([]piece, 0, len(cuts)+1)
	var from cut
	for i := 0; i <= len(cuts); i++ {
		to := cut{at: len(text)}
		if i < len(cuts) {
			to = cuts[i]
		}
		p := piece{text: text[from.at:to.at], head: from.head, tail: to.tail, line: from.line}
		p.section = strings.Trim(from.head, "{: \n")
		if strings.HasSuffix(from.head, "\n") {
			p.line--
		} else {
			p.column = from.column - len(from.head)
		}
		all = append(all, p)
		from = to
	}
	return all
}

func (p *piece) reader() io.Reader {
	return io.MultiReader(strings.NewReader(p.head), bytes.NewReader(p.text), strings.NewReader(p.tail))
}

// place moves a node of the piece to where it is in the whole text.
func (p *piece) place(n *yaml.Node) {
	if n.Line == 1 {
		n.Column += p.column
	}
	n.Line += p.line
}

// parts reads a file piece by piece, of least bytes each.
func (r *reader) parts(b []byte, least int) (f fileParts) {
	b = withoutMark(b)
	c := &cutter{least: least, top: -1, entries: -1}
	if !r.scan(b, c) {
		return f
	}
	seen := make(map[string]int)
	for _, p := range pieces(b, c.cuts) {
		n := r.tree(&p)
		if n == nil {
			return f
		}
		if len(c.cuts) > 0 {
			r.apart(n, &p, seen)
		}
		readMap(r, n, "a mapping with policies", fileEntries, &f)
	}
	return f
}

// records returns what a file has.
func (f *fileParts) records() (records []*Record) {
	if f.given {
		records = append(records, &Record{Name: attributesRecord, Kind: AttributesRecord, attributes: f.attributes})
	}
	for _, l := range f.lists {
		records = append(records, &Record{Name: listPrefix + l.name, Kind: ListRecord, list: l})
	}
	for _, d := range f.policies {
		records = append(records, &Record{Name: d.name, definition: d})
	}
	for _, d := range f.routes {
		records = append(records, &Record{Name: routesPrefix + d.name, Kind: RoutesRecord, routes: d})
	}
	return records
}

// apart fails the keys and names that an earlier piece has too, and takes them out.
// seen has the lines of those, and gets those of this one.
func (r *reader) apart(n *yaml.Node, p *piece, seen map[string]int) {
	if n.Kind != yaml.MappingNode {
		return // which readMap fails
	}
	var head *yaml.Node // the key that the piece has been given
	if p.section != "" {
		head = n.Content[0]
		head.Line = seen[p.section]
	}
	own := make(map[string]int) // of this piece, in which pairs looks
	keep := func(key *yaml.Node, id string) bool {
		if key.Kind != yaml.ScalarNode || key.Value == "" {
			return true // pairs fails it
		}
		own[id] = key.Line
		line, twice := seen[id]
		if twice {
			r.in(key.Value, func() { r.fail(key, "is there twice, first on line %d", line) })
		}
		return !twice
	}
	n.Content = filterPairs(n.Content, func(key, value *yaml.Node) bool {
		if key != head && !keep(key, key.Value) {
			return false
		}
		if value.Kind == yaml.MappingNode && slices.Contains(sections, key.Value) {
			r.in(key.Value, func() {
				value.Content = filterPairs(value.Content, func(name, _ *yaml.Node) bool { return keep(name, key.Value+"."+name.Value) })
			})
		}
		return true
	})
	maps.Copy(seen, own)
}

// filterPairs takes the pairs out of a mapping that are not to be kept.
func filterPairs(content []*yaml.Node, keep func(key, value *yaml.Node) bool) []*yaml.Node {
	kept := content[:0]
	for i := 0; i+1 < len(content); i += 2 {
		if keep(content[i], content[i+1]) {
			kept = append(kept, content[i], content[i+1])
		}
	}
	return kept
}
