package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/headgate-io/headgate/resp"
)

// argument describes one argument of a command, or a group of them, for COMMAND DOCS.
type argument struct {
	name     string
	kind     string // key, string, integer, pattern, pure-token, oneof, block
	token    string // the keyword before the value, or the keyword itself
	optional bool
	multiple bool
	args     []argument // of oneof and block
}

// argumentKinds are the types of arguments by name; all others are strings.
var argumentKinds = map[string]string{
	"key": "key", "newkey": "key", "source": "key", "destination": "key", "pattern": "pattern",
	"count": "integer", "cursor": "integer", "seconds": "integer", "milliseconds": "integer", "ms": "integer",
	"n": "integer", "limit": "integer", "cost": "integer", "index": "integer", "protover": "integer",
	"max-burst": "integer", "quantity": "integer", "timeout": "integer", "client-id": "integer",
	"unix-time-seconds": "integer", "unix-time-milliseconds": "integer", "numreplicas": "integer",
}

// parseSyntax turns redis.io's notation into arguments:
//
//	key                one value
//	COST n             a keyword with a value
//	PEEK               a keyword
//	[x]                optional
//	<x | y>, [x | y]   one of several
//	x [x ...]          one or more
//	[x ...]            none or more
func parseSyntax(s string) ([]argument, error) {
	for _, mark := range []string{"[", "]", "<", ">", "|"} {
		s = strings.ReplaceAll(s, mark, " "+mark+" ")
	}
	p := &syntaxParser{tokens: strings.Fields(s)}
	args, _, err := p.sequence()
	if err != nil {
		return nil, err
	}
	if len(p.tokens) > 0 {
		return nil, fmt.Errorf("unexpected %q", p.tokens[0])
	}
	return args, nil
}

type syntaxParser struct{ tokens []string }

func (p *syntaxParser) peek() string {
	if len(p.tokens) == 0 {
		return ""
	}
	return p.tokens[0]
}

func (p *syntaxParser) next() string {
	t := p.peek()
	if t != "" {
		p.tokens = p.tokens[1:]
	}
	return t
}

// sequence parses until a closing bracket or a bar. ellipsis reports whether the sequence
// ended in an ellipsis.
func (p *syntaxParser) sequence() (args []argument, ellipsis bool, err error) {
	for {
		switch t := p.peek(); t {
		case "", "]", ">", "|":
			return args, ellipsis, nil
		case "...":
			p.next()
			ellipsis = true
		case "[", "<":
			p.next()
			a, repeats, err := p.group(t)
			if err != nil {
				return nil, false, err
			}
			if n := repeats; n > 0 && t == "[" {
				if args, err = repeatLast(args, a, n); err != nil {
					return nil, false, err
				}
				continue
			}
			args = append(args, a)
		default:
			args = append(args, p.word())
		}
	}
}

// word parses a value, a keyword, or a keyword and its value.
func (p *syntaxParser) word() argument {
	t := p.next()
	if t != strings.ToUpper(t) {
		kind := argumentKinds[t]
		if kind == "" {
			kind = "string"
		}
		return argument{name: t, kind: kind}
	}
	if v := p.peek(); v != "" && v == strings.ToLower(v) && !strings.ContainsAny(v, "[]<>|.") {
		a := p.word()
		a.token = t
		return a
	}
	return argument{name: strings.ToLower(t), kind: "pure-token", token: t}
}

// group parses the contents of a bracket and the closing bracket. repeats is how many
// arguments before the ellipsis repeat.
func (p *syntaxParser) group(open string) (a argument, repeats int, err error) {
	var choices []argument
	for {
		args, more, err := p.sequence()
		if err != nil {
			return a, 0, err
		}
		if len(args) == 0 {
			return a, 0, errors.New("empty group")
		}
		one := args[0]
		if len(args) > 1 {
			one = argument{name: blockName(args), kind: "block", args: args}
		}
		if more {
			one.multiple = true
			repeats = len(args)
		}
		choices = append(choices, one)
		if p.peek() != "|" {
			break
		}
		p.next()
	}
	a = choices[0]
	if len(choices) > 1 {
		a = argument{name: blockName(choices), kind: "oneof", args: choices}
		repeats = 0
	}
	want := "]"
	if open == "<" {
		want = ">"
	}
	if got := p.next(); got != want {
		return a, 0, fmt.Errorf("%q where %q should close", got, want)
	}
	a.optional = open == "["
	return a, repeats, nil
}

// blockName names a group after its first member, as Redis often does.
func blockName(args []argument) string { return args[0].name }

// repeatLast handles an optional group a that repeats. If the group repeats the last n
// arguments before it, repeatLast makes these repeat: "key [key ...]" means one or more
// keys. A group with other names stays, and means none or more.
func repeatLast(args []argument, a argument, n int) ([]argument, error) {
	members := []argument{a}
	if a.kind == "block" {
		members = a.args
	}
	if len(args) < n {
		return append(args, a), nil
	}
	tail := args[len(args)-n:]
	if !slices.EqualFunc(tail, members, func(x, y argument) bool { return x.name == y.name && x.token == y.token }) {
		return append(args, a), nil
	}
	a.optional = false
	return append(slices.Clone(args[:len(args)-n]), a), nil
}

// write replies the argument in the form of COMMAND DOCS.
func (a *argument) write(w *resp.Writer) {
	fields := 2
	if a.kind != "oneof" && a.kind != "block" {
		fields++ // display_text
	}
	if a.kind == "key" {
		fields++
	}
	if a.token != "" {
		fields++
	}
	if a.optional || a.multiple {
		fields++
	}
	if len(a.args) > 0 {
		fields++
	}
	w.Map(fields)
	w.BulkString("name")
	w.BulkString(a.name)
	w.BulkString("type")
	w.BulkString(a.kind)
	if a.kind != "oneof" && a.kind != "block" {
		w.BulkString("display_text")
		w.BulkString(a.name)
	}
	if a.kind == "key" {
		w.BulkString("key_spec_index")
		w.Int(0)
	}
	if a.token != "" {
		w.BulkString("token")
		w.BulkString(a.token)
	}
	if a.optional || a.multiple {
		var flags []string
		if a.optional {
			flags = append(flags, "optional")
		}
		if a.multiple {
			flags = append(flags, "multiple")
		}
		w.BulkString("flags")
		w.Set(len(flags))
		for _, f := range flags {
			w.Simple(f)
		}
	}
	if len(a.args) > 0 {
		w.BulkString("arguments")
		w.Array(len(a.args))
		for i := range a.args {
			a.args[i].write(w)
		}
	}
}
