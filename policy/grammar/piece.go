package grammar

import (
	"bytes"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/headgate-io/headgate/policy"
)

// # Files in pieces
//
// The tree of the YAML parser takes about 25 times the memory of its text. So a file is cut
// between its policies, lists and sets of routes, and the pieces are read one after the
// other. Each piece is made a complete file: head is added before it, and tail completes
// the piece before.

// pieceBytes is the least text in a piece, except for the last.
const pieceBytes = 64 << 10

// cut is where a piece begins.
type cut struct {
	at         int
	head, tail string
	// line and column, from 0, are the position of at, and key is the line of the key
	// in head, from 1.
	line, column, key int
}

// cutter finds the places where a file can be cut. Text that it does not understand stays
// in one piece; the parser then accepts or refuses it.
type cutter struct {
	least int // how many bytes a piece has before the next may begin
	cuts  []cut
	// top is the column of the lines with the file's keys; -1 before the first key. inFlow
	// reports that the whole file is in brackets.
	top    int
	inFlow bool
	// section is the key whose value is a mapping from names; "" elsewhere. entries is the
	// column of the lines with the mapping's names; -1 before the first name. depth is the
	// number of open brackets around the names.
	section string
	key     int // its line, from 1
	entries int
	depth   int
}

// sections are the keys of a file that have names below them.
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

// begins handles the start of a token outside of brackets.
func (c *cutter) begins(s *scanner) {
	column := s.i - s.from
	b := s.text[s.i]
	word := b == '"' || b == '\'' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9'
	switch {
	case !word || strings.Trim(string(s.text[s.from:s.i]), " ") != "":
	case c.top < 0 || column == c.top:
		c.top, c.section, c.key, c.entries, c.depth = column, sectionAt(s.text[s.i:]), s.line+1, -1, 0
	case c.section == "":
	case c.entries < 0:
		c.entries = column
	case column == c.entries:
		c.cut(s, s.from, strings.Repeat(" ", c.top)+c.section+":\n", "")
	}
}

// beginsInFlow handles the start of a token within brackets.
func (c *cutter) beginsInFlow(s *scanner) {
	if c.inFlow && s.depth == 1 {
		if name := sectionAt(s.text[s.i:]); name != "" {
			c.section, c.key, c.depth = name, s.line+1, 0
		}
	}
}

// bracket handles a bracket or a comma, which is just before s.i.
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

// cut begins a piece, if the piece before has enough text.
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
	c.cuts = append(c.cuts, cut{at, head, tail, s.line, column + utf8.RuneCount(s.text[from:at]), c.key})
	s.tokens = 0
}

// piece is a part of a text that can be read like a whole text.
type piece struct {
	text       []byte
	head, tail string
	key        int // the line of the key in head, from 1; 0: there is none
	// line is added to lines, and column to the columns of the first line.
	line, column int

	// The content read so far.
	names []named
	parts fileParts
	errs  policy.Errors
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
		p := piece{text: text[from.at:to.at], head: from.head, tail: to.tail, line: from.line, key: from.key}
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

// place changes the position of a node of the piece to the node's position in the whole
// text.
func (p *piece) place(n *yaml.Node) {
	if n.Line == 1 {
		n.Column += p.column
	}
	n.Line += p.line
}

// maxReaders is how many pieces are read at a time, if there are as many processors.
const maxReaders = 4

// parts reads a file in pieces, of least bytes each.
func (r *reader) parts(b []byte, least int) (f fileParts) {
	b = withoutMark(b)
	c := &cutter{least: least, top: -1, entries: -1}
	if !r.scan(b, c) {
		return f
	}
	all := pieces(b, c.cuts)
	if len(all) == 1 {
		all[0].read(r.file)
	} else {
		readAll(all, r.file)
	}
	seen := make(map[string]int)
	for i := range all {
		all[i].addTo(r, &f, seen)
		all[i] = piece{}
	}
	if len(f.policies) > policy.MaxPolicies {
		r.failAt(f.place, "there may be at most %d policies", policy.MaxPolicies)
	}
	return f
}

// readAll reads pieces, some at a time.
func readAll(all []piece, file string) {
	var next atomic.Int64
	var readers sync.WaitGroup
	for range min(maxReaders, runtime.GOMAXPROCS(0), len(all)) {
		readers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(all)); i = next.Add(1) - 1 {
				all[i].read(file)
			}
		})
	}
	readers.Wait()
}

// read reads the piece.
func (p *piece) read(file string) {
	r := &reader{file: file}
	if n := r.tree(p); n != nil {
		p.note(n)
		readMap(r, n, "a mapping with policies", fileEntries, &p.parts)
	}
	p.errs = r.errs
}

// named is a key of a file, or what is named below one.
type named struct {
	section, name string
	line, column  int
}

// note records the keys of the piece, and the names below them.
func (p *piece) note(n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		return // readMap reports the error
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case i == 0 && p.key > 0:
			key.Line = p.key // its line in the file
		case p.key == 0 || key.Value != n.Content[0].Value: // which pairs fails
			p.names = append(p.names, named{"", key.Value, key.Line, key.Column})
		}
		if value.Kind != yaml.MappingNode || !slices.Contains(sections, key.Value) {
			continue
		}
		for j := 0; j+1 < len(value.Content); j += 2 {
			p.names = append(p.names, named{key.Value, value.Content[j].Value, value.Content[j].Line, value.Content[j].Column})
		}
	}
}

// addTo adds the piece to a file. seen has the lines of names; a name that an
// earlier piece has is an error.
func (p *piece) addTo(r *reader, f *fileParts, seen map[string]int) {
	for _, e := range p.errs.List {
		r.errs.Add(e)
	}
	r.errs.More += p.errs.More
	own := make(map[string]int)
	for _, n := range p.names {
		if n.name == "" {
			continue // pairs reports the error
		}
		id := n.section + "/" + n.name
		if line, twice := seen[id]; twice {
			at := placeAt(n.line, n.column)
			at.Path = &policy.Step{Name: n.name}
			if n.section != "" {
				at.Path.Up = &policy.Step{Name: n.section}
			}
			r.failAt(at, "is given twice, first on line %d", line)
		}
		own[id] = n.line
	}
	maps.Copy(seen, own) // within a piece, pairs finds repeated names
	f.add(&p.parts)
}

// Add adds what a later piece has.
func (f *fileParts) add(p *fileParts) {
	if p.given {
		f.given, f.attributes = true, p.attributes
	}
	if len(f.policies) == 0 {
		f.place = p.place
	}
	f.lists = append(f.lists, p.lists...)
	f.policies = append(f.policies, p.policies...)
	f.routes = append(f.routes, p.routes...)
}

// records returns what a file has.
func (f *fileParts) records() (records []*policy.Record) {
	if f.given {
		records = append(records, &policy.Record{Name: policy.RecordName(policy.AttributesRecord, ""), Kind: policy.AttributesRecord, Attributes: f.attributes})
	}
	for _, l := range f.lists {
		records = append(records, &policy.Record{Name: policy.RecordName(policy.ListRecord, l.Name), Kind: policy.ListRecord, List: l})
	}
	for _, d := range f.policies {
		records = append(records, &policy.Record{Name: d.Name, Definition: d})
	}
	for _, d := range f.routes {
		records = append(records, &policy.Record{Name: policy.RecordName(policy.RoutesRecord, d.Name), Kind: policy.RoutesRecord, Routes: d})
	}
	return records
}
