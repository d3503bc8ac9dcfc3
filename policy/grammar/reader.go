package grammar

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/headgate-io/headgate/policy"
)

// reader reads the nodes of a text and collects errors.
type reader struct {
	file string
	path *policy.Step
	errs policy.Errors
}

// entry is a key of a mapping of the grammar. The parser, its messages, the
// reference and the JSON Schema all use tables of entries.
type entry[T any] struct {
	key string
	// value describes the possible values. none is the default, "" if there is none. about
	// says what the key does.
	value, none, about string
	schema             schema
	// later is the error for a word that is reserved for a later release.
	later string
	read  func(r *reader, n *yaml.Node, to *T)
	// print returns the value in canonical form; "" if the value is not set. If a list or
	// mapping is compared part by part, its entry has parts instead of print. If each part
	// takes more than a line, the entry also has block.
	print func(from *T) string
	parts func(from *T) []Field
	block func(w *writer, indent string, from *T)
	// effect is what an edit of the value does to counters.
	effect Effect
}

// fail adds an error about a node.
func (r *reader) fail(n *yaml.Node, format string, args ...any) {
	r.failAt(r.at(n), format, args...)
}

func (r *reader) failAt(p policy.Place, format string, args ...any) {
	r.errs.Add(p.Error(r.file, format, args...))
}

// at returns the place of a node, at the present path.
func (r *reader) at(n *yaml.Node) policy.Place {
	p := placeOf(n)
	p.Path = r.path
	return p
}

// in runs f with one more step on the path.
func (r *reader) in(name string, f func()) {
	r.path = &policy.Step{Up: r.path, Name: policy.Clip(name)}
	f()
	r.path = r.path.Up
}

// yamlLine is how the parser of YAML begins an error that knows its line.
var yamlLine = regexp.MustCompile(`^line (\d+): `)

// scan scans a text, and reports to c where the text can be cut. It returns false after an
// error.
func (r *reader) scan(b []byte, c *cutter) bool {
	refused := scan(b, c)
	if refused != nil {
		r.failAt(placeAt(refused.line, refused.column), "%s", refused.text)
	}
	return refused == nil
}

// root returns the top node of a text, or nil after an error.
func (r *reader) root(b []byte) *yaml.Node {
	b = withoutMark(b)
	if !r.scan(b, nil) {
		return nil
	}
	return r.tree(&piece{text: b})
}

// withoutMark returns a text without the byte order mark that some editors add.
func withoutMark(b []byte) []byte { return bytes.TrimPrefix(b, []byte("\ufeff")) }

// tree returns the top node of a piece, with the places of the whole text, or nil
// after an error.
func (r *reader) tree(p *piece) *yaml.Node {
	var doc yaml.Node
	var second error
	err := guarded(func() error {
		decoder := yaml.NewDecoder(p.reader())
		if err := decoder.Decode(&doc); err != nil {
			return err
		}
		second = decoder.Decode(new(yaml.Node))
		return nil
	})
	switch {
	case errors.Is(err, io.EOF):
		r.failAt(placeAt(1, 1), "the text is empty")
		return nil
	case err != nil:
		s := strings.TrimPrefix(err.Error(), "yaml: ")
		line := 1
		if m := yamlLine.FindStringSubmatch(s); m != nil {
			line, _ = strconv.Atoi(m[1])
			s = s[len(m[0]):]
		}
		r.failAt(placeAt(line+p.line, 1), "not YAML: %s", s)
		return nil
	case !errors.Is(second, io.EOF):
		r.failAt(placeAt(1, 1), "a text is one document")
		return nil
	}
	n := doc.Content[0]
	if !r.plain(n, p) {
		return nil
	}
	return n
}

// guarded runs f and returns a panic of f as an error. Texts come from clients, and the
// YAML parser is a library. If the parser panics, the text is refused and the node
// continues.
func guarded(f func() error) (err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("the parser failed: %v", x)
		}
	}()
	return f()
}

// plain changes the positions of a piece's nodes to their positions in the whole text. It
// also refuses the kinds of nodes that scan refuses, in case scan has not recognised one.
func (r *reader) plain(n *yaml.Node, p *piece) bool {
	p.place(n)
	switch {
	case n.Kind == yaml.AliasNode:
		r.fail(n, "aliases are not supported: quote a pattern that begins with a star")
	case n.Anchor != "":
		r.fail(n, "anchors are not supported: write the value again")
	case n.Style&yaml.TaggedStyle != 0:
		r.fail(n, "tags are not read")
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		r.fail(n, "block texts are not supported: write every value on one line")
	default:
		for _, c := range n.Content {
			if !r.plain(c, p) {
				return false
			}
		}
		return true
	}
	return false
}

// void reports whether a value is missing.
func void(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Style == 0 && (n.Value == "" || n.Value == "null")
}

// scalar returns the text of a scalar. For any other node it reports an error and returns
// false.
func (r *reader) scalar(n *yaml.Node, want string) (string, bool) {
	if n.Kind == yaml.ScalarNode && n.Value != "" {
		return n.Value, true
	}
	r.fail(n, "want %s%s", want, found(n))
	return "", false
}

// found says what was found instead of the expected value.
func found(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return ", not a mapping"
	case n.Kind == yaml.SequenceNode:
		return ", not a list"
	case n.Value == "":
		return ", not an empty value"
	}
	return fmt.Sprintf(", not %q", policy.Clip(n.Value))
}

// pairs calls f for each pair of a mapping, while the key is on the path. It reports
// repeated keys, missing keys and missing values as errors.
func (r *reader) pairs(n *yaml.Node, want string, f func(key, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		r.fail(n, "want %s%s", want, found(n))
		return
	}
	var seen map[string]int // the lines of keys, if they are many
	if len(n.Content) > 2*fewPairs {
		seen = make(map[string]int, len(n.Content)/2)
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.Value == "" {
			r.fail(key, "a key is a word%s", found(key))
			continue
		}
		r.in(key.Value, func() {
			line, twice := seen[key.Value]
			if seen == nil {
				line, twice = lineOf(n.Content[:i], key.Value)
			}
			switch {
			case twice:
				r.fail(key, "is given twice, first on line %d", line)
			case void(value):
				r.fail(key, "has no value")
			default:
				f(key, value)
			}
		})
		if seen != nil {
			seen[key.Value] = key.Line
		}
	}
}

// fewPairs is the number of pairs up to which a search is as fast as an index.
const fewPairs = 8

// lineOf returns the line of the last pair with a key.
func lineOf(pairs []*yaml.Node, key string) (line int, found bool) {
	for i := len(pairs) - 2; i >= 0; i -= 2 {
		if k := pairs[i]; k.Kind == yaml.ScalarNode && k.Value == key {
			return k.Line, true
		}
	}
	return 0, false
}

// readMap reads a mapping by its table.
func readMap[T any](r *reader, n *yaml.Node, want string, entries []entry[T], to *T) {
	r.pairs(n, want, func(key, value *yaml.Node) {
		for i := range entries {
			if e := &entries[i]; e.key == key.Value {
				if e.later != "" {
					r.fail(key, "%s", e.later)
					return
				}
				e.read(r, value, to)
				return
			}
		}
		known := make([]string, 0, len(entries))
		for i := range entries {
			if entries[i].later == "" {
				known = append(known, entries[i].key)
			}
		}
		at := placeOf(key)
		at.Path = r.path.Up
		r.failAt(at, "unknown key %q%s", policy.Clip(key.Value), cmp.Or(policy.Nearest(key.Value, known), ", known are "+strings.Join(known, ", ")))
	})
}

// items returns the items of a list, or a single item as a list of one. For an empty list
// it reports an error and returns false.
func (r *reader) items(n *yaml.Node, want string) ([]*yaml.Node, bool) {
	if n.Kind != yaml.SequenceNode {
		return []*yaml.Node{n}, true
	}
	if len(n.Content) == 0 {
		r.fail(n, "want %s, not an empty list", want)
		return nil, false
	}
	return n.Content, true
}

// word reads a value that must be one of words, and stores its position in *to.
func word[T ~uint8](r *reader, n *yaml.Node, words []string, to *T) {
	known := words
	if words[0] == "" { // the zero value has no word
		known = words[1:]
	}
	want := "one of " + strings.Join(known, ", ")
	s, ok := r.scalar(n, want)
	if !ok {
		return
	}
	for i, w := range words {
		if w == s && w != "" {
			*to = T(i)
			return
		}
	}
	r.fail(n, "%q: want %s%s", policy.Clip(s), want, policy.Nearest(s, known))
}

// whole reads a whole number.
func (r *reader) whole(n *yaml.Node, least, most int64) (int64, bool) {
	want := fmt.Sprintf("a whole number from %d to %d", least, most)
	s, ok := r.scalar(n, want)
	if !ok {
		return 0, false
	}
	v, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 10, 64)
	if err != nil || v < least || v > most {
		r.fail(n, "%q: want %s", policy.Clip(s), want)
		return 0, false
	}
	return v, true
}

// unless returns v, or 0 if v is the default.
func unless[T comparable](v, usual T) (none T) {
	if v == usual {
		return none
	}
	return v
}

// placeOf returns the place of a node, without a path.
func placeOf(n *yaml.Node) policy.Place {
	return placeAt(n.Line, n.Column)
}

func placeAt(line, column int) policy.Place {
	return policy.Place{Line: int32(line), Column: int32(column)}
}
