package policy

import "strings"

// String returns the condition in the grammar.
func (d ConditionDef) String() string {
	parts := make([]string, len(d))
	for i := range d {
		parts[i] = d[i].Attribute + ": " + d[i].String()
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// expected returns what the condition requires of an attribute.
func (d ConditionDef) expected(attribute string) string {
	for i := range d {
		if d[i].Attribute == attribute {
			return d[i].String()
		}
	}
	return ""
}

// String returns the requirement of the clause.
func (c *ClauseDef) String() string {
	var s string
	switch {
	case c.Test == Present:
		return "{present: true}"
	case c.Test == Absent:
		return "{present: false}"
	case c.List.S != "":
		s = "{list: " + c.List.S + "}"
	default:
		s = Flow(c.Values)
	}
	if c.Test == IsNone {
		s = "{not: " + s + "}"
	}
	return s
}

// Flow writes texts on one line: nothing, a text, or a list.
func Flow(texts []Scalar) string {
	if len(texts) == 1 {
		return Quote(texts[0].S)
	}
	if len(texts) == 0 {
		return ""
	}
	return FlowList(texts)
}

// FlowList writes a list on one line, also an empty one.
func FlowList(texts []Scalar) string {
	parts := make([]string, len(texts))
	for i := range texts {
		parts[i] = Quote(texts[i].S)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// Quote writes a text in YAML, in quotes if needed.
func Quote(s string) string {
	if isPlain(s) {
		return s
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 || r == 0xfeff:
			b.WriteString("\\u")
			for shift := 12; shift >= 0; shift -= 4 {
				b.WriteByte(hexDigits[r>>shift&15])
			}
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// isPlain reports whether a text needs no quotes. It begins with a letter, a
// digit or a slash, and has no character with a meaning in YAML.
func isPlain(s string) bool {
	if s == "" || s == "null" {
		return false
	}
	for i := range len(s) {
		b := s[i]
		switch {
		case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= '0' && b <= '9', b == '/':
		case i > 0 && strings.IndexByte("._-*~@", b) >= 0:
		default:
			return false
		}
	}
	return true
}
