package grammar

import (
	"strings"

	"github.com/headgate-io/headgate/policy"
)

// descriptors writes a level.
func (w *writer) descriptors(indent string, defs []*policy.DescriptorDef) {
	if len(defs) == 0 {
		w.line(indent, "descriptors: []")
		return
	}
	w.line(indent, "descriptors:")
	for _, d := range defs {
		w.item(indent+"  ", func(w *writer, indent string) { writeMap(w, indent, descriptorEntries, d) })
	}
}

// rateLimitText returns the limit in the dialect's form; "" if there is none.
func rateLimitText(l *policy.RateLimitDef) string {
	if l == nil {
		return ""
	}
	return Inline(fieldsOf(rateLimitEntries, l))
}

func replacesText(names []string) string {
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = Inline(fieldsOf(replacedEntries, &replacedDef{name}))
	}
	return said(len(names) > 0, "["+strings.Join(texts, ", ")+"]")
}
