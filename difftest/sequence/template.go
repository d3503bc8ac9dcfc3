package sequence

import (
	"fmt"
	"strings"
)

// template is a command with its arguments in a small language:
//
//	WORD         the word itself
//	{key}        a random value of a kind, see values
//	[ … ]        present in one of three cases
//	( a | b )    one of them
//	( … )+       one to four times, another choice each time
//
// Parts are separated by spaces.
type template struct {
	name   string // upper case
	weight int    // how often, relative to the others
	parts  []part
}

// part is one node of a template.
type part struct {
	word  string // a literal
	kind  string // of a value
	alts  [][]part
	maybe bool // alts[0] or nothing
	many  bool
}

// templates parses a list, one command a line: its weight, and the template.
func templates(list string) []template {
	var out []template
	for line := range strings.Lines(list) {
		tokens := strings.Fields(line)
		if len(tokens) == 0 {
			continue
		}
		var weight int
		if _, err := fmt.Sscan(tokens[0], &weight); err != nil {
			panic(fmt.Sprintf("%q: %v", line, err))
		}
		parts, rest := parse(tokens[1:])
		if len(rest) > 0 || parts[0].word == "" {
			panic(fmt.Sprintf("%q: unexpected %q", line, rest))
		}
		out = append(out, template{name: parts[0].word, weight: weight, parts: parts})
	}
	return out
}

// parse takes parts off the tokens up to the end or a token that closes.
func parse(tokens []string) (parts []part, rest []string) {
	for len(tokens) > 0 {
		t := tokens[0]
		switch {
		case t == "[":
			var inner []part
			inner, tokens = parse(tokens[1:])
			tokens = tokens[1:]
			parts = append(parts, part{alts: [][]part{inner}, maybe: true})
		case t == "(":
			p := part{}
			for {
				var alt []part
				alt, tokens = parse(tokens[1:])
				p.alts = append(p.alts, alt)
				if tokens[0] != "|" {
					break
				}
			}
			p.many = tokens[0] == ")+"
			tokens = tokens[1:]
			parts = append(parts, p)
		case t == "]" || t == "|" || t == ")" || t == ")+":
			return parts, tokens
		case strings.HasPrefix(t, "{"):
			parts = append(parts, part{kind: strings.Trim(t, "{}")})
			tokens = tokens[1:]
		default:
			parts = append(parts, part{word: t})
			tokens = tokens[1:]
		}
	}
	return parts, nil
}

// fill appends the arguments that random choices make of parts.
func (g *Generator) fill(args []string, parts []part) []string {
	for i := range parts {
		p := &parts[i]
		times := 1
		switch {
		case p.word != "":
			args = append(args, g.spelled(p.word))
			continue
		case p.kind != "":
			args = append(args, values[p.kind](g))
			continue
		case p.maybe && g.rng.IntN(3) > 0:
			times = 0
		case p.many:
			times = 1 + g.rng.IntN(4)
		}
		for range times {
			args = g.fill(args, p.alts[g.rng.IntN(len(p.alts))])
		}
	}
	return args
}

// spelled returns a word, now and then in lower case.
func (g *Generator) spelled(word string) string {
	if g.rng.IntN(8) == 0 {
		return strings.ToLower(word)
	}
	return word
}
