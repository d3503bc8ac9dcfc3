package native

import (
	"strings"
	"sync"

	"github.com/headgate-io/headgate/script/lua"
)

// A form is a text of our own for the many texts that differ from it only in
// constants: the order of arguments, names of fields, times. Scripts that people
// write by themselves, after articles that all say the same, are known by these.
//
// A constant of the text that is one of the parameters may differ: see param.
// All others must be the same.
type form struct {
	script *Script // Library, Instead, Index
	text   string
	// bind returns what runs in place of a text of the form, or nil if the
	// parameters are not ones that it is made for.
	bind func(p *params) func(c *Call) bool
}

// The parameters of forms: each number replaces a constant of the script.
// Parameters up to argMember hold the index of an argument, not its value.
const (
	argLimit = 9001 + iota
	argWindow
	argNow
	argRate
	argCost
	argMember
	constFrom // the least score
	constTTL
	constScale
	constField
	constOther
	constYes
	constNo
	firstParam = argLimit
	params0    = constNo + 1
)

// params are the constants of a script in place of the parameters of its form.
type params struct {
	set    [params0 - firstParam]bool
	values [params0 - firstParam]lua.Constant
}

// arg is which argument is a parameter, from 0, or -1 for none.
func (p *params) arg(param int) int {
	c := p.values[param-firstParam]
	if !p.set[param-firstParam] || c.IsText || c.Number < 1 || c.Number > maxArgument || c.Number != float64(int(c.Number)) {
		return -1
	}
	return int(c.Number) - 1
}

// maxArgument bounds the index of an argument that is looked for: limiters have
// a few.
const maxArgument = 16

// has reports whether the form has a parameter, and number and text its value; ok
// is false for one of the other type.
func (p *params) has(param int) bool { return p.set[param-firstParam] }

func (p *params) number(param int) (n float64, ok bool) {
	c := p.values[param-firstParam]
	return c.Number, p.has(param) && !c.IsText
}

// whole gives a parameter that is an integer.
func (p *params) whole(param int, to *int64) bool {
	n, ok := p.number(param)
	*to = int64(n)
	return ok && float64(*to) == n && *to < maxExact && *to > -maxExact
}

func (p *params) text(param int) (s string, ok bool) {
	c := p.values[param-firstParam]
	return c.Text, p.has(param) && c.IsText
}

// shaped is a form with the constants of its text.
type shaped struct {
	form
	constants []lua.Constant
}

// match gives the parameters of the form in a script of its shape, which has as
// many constants.
func (s *shaped) match(constants []lua.Constant) (p params, ok bool) {
	for i, want := range s.constants {
		at := int(want.Number) - firstParam
		switch {
		case want.IsText || at < 0 || at >= len(p.set):
			if constants[i] != want {
				return p, false
			}
		case !p.set[at]:
			p.set[at], p.values[at] = true, constants[i]
		case p.values[at] != constants[i]:
			return p, false
		}
	}
	return p, true
}

// byShape has the forms. They are some hundred: Prepare makes it, so that only
// what runs scripts takes the time.
var byShape map[lua.Fingerprint][]shaped

// Prepare makes scripts known that many have written by themselves. It takes some
// milliseconds the first time.
var Prepare = sync.OnceFunc(func() {
	byShape = make(map[lua.Fingerprint][]shaped)
	for _, family := range families {
		for i := range family {
			if family[i].forms == nil {
				continue
			}
			for _, f := range family[i].forms() {
				f.script = &family[i]
				learn(f)
			}
		}
	}
})

func learn(f form) {
	shape, constants, err := lua.ShapeOf(f.text)
	if err != nil {
		panic("script/native: " + f.text + ": " + err.Error())
	}
	byShape[shape] = append(byShape[shape], shaped{f, constants})
}

// maxForm is how long a text may be, in bytes, that is compared with the forms.
const maxForm = 4 << 10

// byForm returns the known script that a text is a form of, or nil.
func byForm(text string) *Script {
	Prepare()
	if len(text) > maxForm {
		return nil
	}
	shape, constants, err := lua.ShapeOf(text)
	if err != nil {
		return nil
	}
	list := byShape[shape]
	for i := range list {
		p, ok := list[i].match(constants)
		if !ok {
			continue
		}
		if run := list[i].bind(&p); run != nil {
			s := *list[i].script
			s.run = run
			return &s
		}
	}
	return nil
}

// choice is a word of a text, and what may be in its place: or several, and as
// many, with | between them.
type choice[T any] struct {
	word    string
	options []option[T]
}

// option is a text, and what it means to the script, if anything.
type option[T any] struct {
	text string
	with func(*T)
}

// expand calls yield with each text that choices make of one, the first choices
// first, and with its meaning.
func expand[T any](text string, meaning T, choices []choice[T], yield func(text string, meaning T)) {
	if len(choices) == 0 {
		yield(text, meaning)
		return
	}
	c := choices[0]
	for _, o := range c.options {
		m := meaning
		if o.with != nil {
			o.with(&m)
		}
		chosen, by := text, strings.Split(o.text, "|")
		for i, word := range strings.Split(c.word, "|") {
			chosen = strings.ReplaceAll(chosen, word, by[i])
		}
		expand(chosen, m, choices[1:], yield)
	}
}
