package lua

import "strings"

// substitution is one call of gsub.
type substitution struct {
	matcher
	out         buffer
	replacement Value
	text        string // of the replacement if it is a string
	// pinned has the replacement and the result so far. The count of the script's
	// memory finds both there while a function of the script runs.
	pinned *Table
}

func stringGsub(t *Thread, args []Value) Value {
	s, pattern := t.CheckString(args, 0), t.CheckString(args, 1)
	most := t.optInt32(args, 3, len(s)+1)
	g := substitution{matcher: newMatcher(t, s, pattern), out: buffer{t: t}, replacement: Arg(args, 2)}
	switch {
	case g.replacement.IsString() || g.replacement.IsNumber():
		g.text = t.CheckString(args, 2)
	case g.replacement.Table() != nil || g.replacement.Function() != nil:
		g.pinned = t.NewTable(2, 0)
		g.pinned.array[0] = g.replacement
		args[2] = g.pinned.Value()
	default:
		t.ArgError(2, "string/function/table expected")
	}
	first := 0
	anchored := strings.HasPrefix(g.pattern, "^")
	if anchored {
		first = 1
	}
	at, n := 0, 0
	for n < most {
		g.step()
		end := g.matchAt(at, first)
		if end >= 0 {
			n++
			g.replace(at, end)
		}
		if end > at {
			at = end
		} else if at < len(s) {
			g.out.byte(s[at])
			at++
		} else {
			break
		}
		if anchored {
			break
		}
	}
	g.settle()
	if n == 0 {
		return t.Return(String(s), Int(0))
	}
	t.Step(len(s[at:]) / 16)
	g.out.text(s[at:])
	return t.Return(g.out.value(), Int(n))
}

// replace appends the replacement of the match from s to end.
func (g *substitution) replace(s, end int) {
	t := g.t
	if g.pinned == nil {
		g.expand(s, end)
		return
	}
	g.settle()
	var v Value
	g.pinned.array[1] = String(unsafeText(g.out.b[:cap(g.out.b)]))
	if g.replacement.Table() != nil {
		v = t.Index(g.replacement, g.capture(0, s, end))
	} else {
		var buf [maxCaptures]Value
		v = t.Call1(g.replacement, g.appendCaptures(buf[:0], s, end)...)
	}
	switch {
	case !v.Truth():
		g.out.text(g.subject[s:end])
	case v.IsString():
		g.out.text(v.Text())
	case v.IsNumber():
		g.out.number(v.Number())
	default:
		t.Errorf("invalid replacement value (a %s)", v.Kind())
	}
}

// expand appends the replacement text. In it %0 to %9 are captures, and another
// byte after a '%' is itself.
func (g *substitution) expand(s, end int) {
	text := g.text
	for {
		i := strings.IndexByte(text, '%')
		if i < 0 {
			break
		}
		g.out.text(text[:i])
		text = text[i+1:]
		var c byte // a '%' at the end stands for a zero byte
		if text != "" {
			c, text = text[0], text[1:]
		}
		g.steps += 2
		switch {
		case !isDecimal(c):
			g.out.byte(c)
		case c == '0':
			g.out.text(g.subject[s:end])
		default:
			switch v := g.capture(int(c-'1'), s, end); {
			case v.IsString():
				g.out.text(v.Text())
			default:
				g.out.number(v.Number())
			}
		}
	}
	g.out.text(text)
	g.steps += len(g.text) / 8
}
