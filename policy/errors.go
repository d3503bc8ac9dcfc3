package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Error says what is wrong with a text, and where.
type Error struct {
	File string
	// Line and Column count from 1, and Column counts characters. They are 0 if the error
	// has no position in the text.
	Line, Column int
	// Path is the way to the value, such as policies.api.limits.user.rate.
	Path string
	Text string
}

// Error returns `file:line:column: path: text`.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Column)
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.Text)
	return b.String()
}

// maxErrors is how many errors of a text are kept.
const maxErrors = 20

// Errors holds the errors of a text in the order of their positions, at least one. A text
// with errors is refused completely.
type Errors struct {
	List []*Error
	// More is how many further errors there are that List does not have.
	More int
}

// Error returns the first error, and how many there are.
func (e *Errors) Error() string {
	s := e.List[0].Error()
	if n := len(e.List) + e.More - 1; n > 0 {
		s += fmt.Sprintf(" (and %d more)", n)
	}
	return s
}

// Add adds an error, while there is room.
func (e *Errors) Add(x *Error) {
	if len(e.List) == maxErrors {
		e.More++
		return
	}
	e.List = append(e.List, x)
}

// Result returns e as an error, with the errors in order. It returns nil if there are no
// errors.
func (e *Errors) Result() error {
	if len(e.List) == 0 {
		return nil
	}
	slices.SortStableFunc(e.List, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return e
}

// Clip shortens a text that is quoted in an error.
func Clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	for i := most; i > most-4; i-- {
		if s[i]&0xc0 != 0x80 { // not within a character
			return s[:i] + "…"
		}
	}
	return s[:most] + "…"
}

// Nearest returns `, did you mean "x"?` for the known word that resembles s most. It
// returns "" if no word resembles s.
func Nearest(s string, known []string) string {
	if len(s) > 2*MaxName {
		return ""
	}
	best, at := 1+len(s)/3, ""
	for _, k := range known {
		d := distance(s, k, best)
		if d < best || d == best && (at == "" || sameStart(s, k) > sameStart(s, at)) {
			best, at = d, k
		}
	}
	if at == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %q?", at)
}

// sameStart returns the length of the common prefix of a and b.
func sameStart(a, b string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// distance returns how many changes turn a into b, or a number above most. A change is to
// insert, delete or replace a letter, or to swap two neighbours.
func distance(a, b string, most int) int {
	if len(a)-len(b) > most || len(b)-len(a) > most {
		return most + 1
	}
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row := rows[0], rows[1], rows[2]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := last[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(replace, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		rows = [3][]int{last, row, before}
	}
	return rows[1][len(b)]
}
